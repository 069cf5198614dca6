//! Members: processes of this program that are told what to be in each run.
//!
//! What always holds: a member ends with the process that started it, and with its value.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setpriority_process};

use super::channel::Channel;
use super::orders::{Answer, Order};
use super::wake::Peer;
use super::{Doing, MEMBER, Result, load, producer, relay, waiter};

/// How long a member may take to answer what it does at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The longest that a member waits for its next order.
const BORED: Duration = Duration::from_secs(24 * 3600);

/// A member as the harness has it.
#[derive(Debug)]
pub struct Member {
    name: String,
    child: Child,
    channel: Channel,
}

impl Member {
    /// Starts one by a program of this harness.
    pub fn start(program: &Path, name: String) -> Result<Member> {
        let (channel, other) = Channel::pair()?;
        let child = Command::new(program)
            .args([MEMBER, &std::process::id().to_string()])
            .stdin(Stdio::from(other))
            .spawn()
            .doing(&format!("{name}: {}", program.display()))?;
        Ok(Member { name, child, channel })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something.
    pub fn tell(&self, order: &Order, fds: &[OwnedFd]) -> Result<()> {
        let fds: Vec<_> = fds.iter().map(std::os::fd::AsFd::as_fd).collect();
        self.channel.send(order, &fds).doing(&self.name)
    }

    /// Its next answer, with its fds.
    pub fn hear(&self, patience: Duration) -> Result<(Answer, Vec<OwnedFd>)> {
        match self.channel.receive(patience).doing(&self.name)? {
            (Answer::Failed(why), _) => Err(format!("{}: {why}", self.name)),
            heard => Ok(heard),
        }
    }

    /// Waits until it is ready; answers the fds that came along.
    pub fn ready(&self) -> Result<Vec<OwnedFd>> {
        match self.hear(PATIENCE)? {
            (Answer::Ready, fds) => Ok(fds),
            (odd, _) => Err(format!("{}: {odd:?}, and not ready", self.name)),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The harness's side of what a member is told.
pub struct Post {
    channel: Channel,
}

impl Post {
    /// The next order, with its fds.
    pub fn order(&self) -> Result<(Order, Vec<OwnedFd>)> {
        self.channel.receive(BORED)
    }

    /// Answers.
    pub fn answer(&self, answer: &Answer) -> Result<()> {
        self.channel.send(answer, &[])
    }

    /// Says that it is ready, and hands these over.
    pub fn ready(&self, fds: &[OwnedFd]) -> Result<()> {
        let fds: Vec<_> = fds.iter().map(std::os::fd::AsFd::as_fd).collect();
        self.channel.send(&Answer::Ready, &fds)
    }
}

/// Is a member, until the harness has gone.
pub fn be(parent: Option<&str>, peer: Option<&dyn Peer>) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).doing("PR_SET_PDEATHSIG")?;
    let parent = parent.and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    if getppid() != parent {
        return Err("the parent has gone".into());
    }
    let post = Post { channel: Channel::of_stdin()? };
    // The end of the channel is the end of the member.
    while let Ok((order, _)) = post.order() {
        let done = match order {
            Order::Wait { run, process } => waiter::be(&post, run, process, peer),
            Order::Produce { run } => {
                take_precedence();
                producer::be(&post, run, peer)
            }
            Order::Relay { run } => relay::be(&post, &run),
            Order::Load(order) => load::be(&post, &order),
            odd => Err(format!("an order out of turn: {odd:?}")),
        };
        if let Err(why) = done {
            post.answer(&Answer::Failed(why))?;
        }
    }
    Ok(())
}

/// A device takes no turn among the CPU's tasks: with every CPU looking for its store a producer
/// without precedence would store only when somebody stops. Refused to most users: it is one of
/// many then.
fn take_precedence() {
    let _ = setpriority_process(None, -20);
    let me = std::process::id().to_string();
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "--all-tasks", "--pid", "1", &me]).stdout(Stdio::null());
    let _ = chrt.stderr(Stdio::null()).status();
}
