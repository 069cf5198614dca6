//! An intrusive pairing heap: the smallest key first, nodes named by index, links in an array that
//! its owner allocates once.
//!
//! A *node* is an index below [`NIL`]; the owner keeps one [`Link`] for each and knows each node's
//! *key*, which must not change while the node is in a heap. A node is in at most one heap that
//! uses its link. Insert takes O(1), removal O(log n) amortised; nothing allocates.
//! (Fredman, Sedgewick, Sleator, Tarjan: The pairing heap, 1986.)

/// No node.
pub const NIL: u32 = u32::MAX;

/// What a heap keeps for one node.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Its first child.
    child: u32,
    /// Its next sibling.
    next: u32,
    /// Its previous sibling, or its parent where it is the first child; itself when it is the
    /// root; `NIL` when it is in no heap.
    prev: u32,
}

impl Default for Link {
    fn default() -> Link {
        Link { child: NIL, next: NIL, prev: NIL }
    }
}

impl Link {
    /// Whether the node is in a heap.
    pub fn is_linked(&self) -> bool {
        self.prev != NIL
    }
}

/// Where the links of a heap's nodes lie: `get(node)` and `set`, for links that are fields of
/// larger records.
pub trait Links {
    /// The link of `node`.
    fn link(&mut self, node: u32) -> &mut Link;
    /// The key of `node`.
    fn key(&self, node: u32) -> u64;
}

/// A heap; its nodes' links are the owner's.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    root: u32,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap { root: NIL }
    }
}

impl Heap {
    /// The node with the smallest key.
    pub fn first(&self) -> Option<u32> {
        (self.root != NIL).then_some(self.root)
    }

    /// Whether the heap has no node.
    pub fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// Adds `node`, which is in no heap of these links.
    pub fn push(&mut self, links: &mut impl Links, node: u32) {
        debug_assert!(!links.link(node).is_linked());
        *links.link(node) = Link { child: NIL, next: NIL, prev: node };
        self.root = if self.root == NIL { node } else { meld(links, self.root, node) };
    }

    /// Takes `node` out.
    pub fn remove(&mut self, links: &mut impl Links, node: u32) {
        let Link { child, next, prev } = *links.link(node);
        debug_assert!(prev != NIL);
        let rest = merge_siblings(links, child);
        if prev == node {
            debug_assert!(self.root == node);
            self.root = rest;
        } else {
            unlink(links, node, next, prev);
            if rest != NIL {
                self.root = meld(links, self.root, rest);
            }
        }
        *links.link(node) = Link::default();
    }

    /// Takes the node with the smallest key out.
    pub fn pop(&mut self, links: &mut impl Links) -> Option<u32> {
        let node = self.first()?;
        self.remove(links, node);
        Some(node)
    }
}

/// Closes the gap that `node`, which is not a root, leaves among its siblings.
fn unlink(links: &mut impl Links, node: u32, next: u32, prev: u32) {
    if links.link(prev).child == node {
        links.link(prev).child = next;
    } else {
        links.link(prev).next = next;
    }
    if next != NIL {
        links.link(next).prev = prev;
    }
}

/// Makes one heap of two roots and answers its root.
fn meld(links: &mut impl Links, a: u32, b: u32) -> u32 {
    let (top, under) = if links.key(b) < links.key(a) { (b, a) } else { (a, b) };
    let first = links.link(top).child;
    if first != NIL {
        links.link(first).prev = under;
    }
    let link = links.link(under);
    link.next = first;
    link.prev = top;
    let link = links.link(top);
    link.child = under;
    link.next = NIL;
    link.prev = top;
    top
}

/// Makes one heap of a list of siblings: in pairs from the left, then together from the right.
fn merge_siblings(links: &mut impl Links, first: u32) -> u32 {
    let mut pairs = NIL;
    let mut at = first;
    while at != NIL {
        let partner = links.link(at).next;
        if partner == NIL {
            links.link(at).next = pairs;
            pairs = at;
            break;
        }
        let after = links.link(partner).next;
        let pair = meld(links, at, partner);
        links.link(pair).next = pairs;
        pairs = pair;
        at = after;
    }
    let mut root = NIL;
    while pairs != NIL {
        let after = links.link(pairs).next;
        links.link(pairs).next = NIL;
        links.link(pairs).prev = pairs;
        root = if root == NIL { pairs } else { meld(links, root, pairs) };
        pairs = after;
    }
    root
}

#[cfg(test)]
#[path = "heap_tests.rs"]
mod tests;
