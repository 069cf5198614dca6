use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

struct Nodes {
    links: Vec<Link>,
    keys: Vec<u64>,
}

impl Links for Nodes {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self.links[node as usize]
    }
    fn key(&self, node: u32) -> u64 {
        self.keys[node as usize]
    }
}

proptest! {
    /// Any sequence of pushes, removals and pops agrees with an ordered set.
    #[test]
    fn agrees_with_an_ordered_set(
        keys in proptest::collection::vec(0u64..50, 40),
        steps in proptest::collection::vec((0u8..4, 0usize..40), 1..400),
    ) {
        let mut nodes = Nodes { links: vec![Link::default(); 40], keys };
        let mut heap = Heap::default();
        let mut model = BTreeSet::new();
        for (what, at) in steps {
            let node = at as u32;
            let entry = (nodes.keys[at], node);
            match what {
                0 | 1 if !model.contains(&entry) => {
                    heap.push(&mut nodes, node);
                    model.insert(entry);
                }
                2 if model.contains(&entry) => {
                    heap.remove(&mut nodes, node);
                    model.remove(&entry);
                }
                3 => {
                    let popped = heap.pop(&mut nodes);
                    prop_assert_eq!(
                        popped.map(|n| nodes.key(n)),
                        model.first().map(|&(key, _)| key)
                    );
                    if let Some(node) = popped {
                        model.remove(&(nodes.key(node), node));
                    }
                }
                _ => {}
            }
            prop_assert_eq!(heap.first().map(|n| nodes.key(n)), model.first().map(|&(k, _)| k));
            for node in 0..40 {
                let linked = nodes.links[node as usize].is_linked();
                prop_assert_eq!(linked, model.contains(&(nodes.key(node), node)));
            }
        }
    }
}

#[test]
fn falling_keys_come_out_in_order() {
    let mut nodes = Nodes { links: vec![Link::default(); 5000], keys: (0..5000).rev().collect() };
    let mut heap = Heap::default();
    for node in 0..5000 {
        heap.push(&mut nodes, node);
    }
    for key in 0..5000 {
        let node = heap.pop(&mut nodes).unwrap();
        assert_eq!(nodes.key(node), key);
    }
    assert!(heap.is_empty());
}
