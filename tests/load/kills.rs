//! A run: clients under load, and lives that are ended one after another.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use parkd::core::time::DurNs;
use parkd::host::clock;

use super::client::Way;
use super::clients::{Client, Device};
use super::counts::Counts;
use super::figures::Figures;
use super::keeper::Keeper;
use super::probe::Probe;
use super::{Dice, idle, tail};
use crate::support::raw::Wire;
use crate::support::until;

/// What a run is told.
#[derive(Args, Clone, Debug)]
pub struct Orders {
    /// Lives to end.
    #[arg(long)]
    pub kills: u32,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
    /// Chooses the moments [default: the time]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// A life serves for so long at most before it is ended.
const SERVES_MS: u64 = 60;

/// One in so many kills is followed by another before the next life serves.
const IN_A_ROW: u64 = 5;

/// The longest time from a life's beginning to its end where it is not to serve.
const BEGINS_US: u64 = 20_000;

impl Orders {
    /// So many kills, at moments that differ from run to run.
    pub fn new(kills: u32) -> Orders {
        Orders { kills, json: false, seed: None }
    }

    /// Ends lives of the keeper's daemon under load, prints what that came to, and answers whether
    /// nothing was lost, early, twice or noticed.
    pub fn run(&self, keeper: &impl Keeper) -> ExitCode {
        let (figures, counts) = self.obey(keeper);
        if self.json {
            println!("{}", serde_json::to_string(&figures).expect("JSON"));
        } else {
            println!("{}", figures.text());
        }
        if counts.is_clean() {
            return ExitCode::SUCCESS;
        }
        counts.complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        eprintln!("{}", tail(&keeper.log()));
        ExitCode::FAILURE
    }

    /// As [`Orders::run`], but panics where anything is wrong.
    pub fn pass(&self, keeper: &impl Keeper) {
        let (figures, counts) = self.obey(keeper);
        eprintln!("{}", figures.text());
        let complaints = &counts.complaints;
        let log = tail(&keeper.log());
        assert!(counts.is_clean(), "{figures:?}: {complaints:#?}\n{log}");
    }

    fn obey(&self, keeper: &impl Keeper) -> (Figures, Counts) {
        let seed = self.seed.unwrap_or_else(|| clock::now().0);
        eprintln!("seed {seed}");
        keeper.ready(1);
        let socket = keeper.socket();
        until("the daemon listens", || Wire::try_connect(&socket).ok());
        let device = Device::start();
        let start = |(way, seed)| Client::start(way, &socket, &device, seed);
        let mut clients: Vec<Client> = ways(keeper).into_iter().zip(seed..).map(start).collect();
        let mut counts = Counts::default();
        let all_work = clients.iter_mut().all(Client::ready);
        let mut pauses = Vec::new();
        match Probe::start(&socket) {
            Err(error) => counts.error(format_args!("probe: {error}")),
            // Its report says why.
            Ok(probe) if !all_work => counts.add(probe.stop()),
            Ok(probe) => {
                let kills = self.kills;
                let mut killing = Killing { kills, keeper, probe: &probe, dice: Dice::new(seed) };
                pauses = killing.all(&mut counts);
                idle(Duration::from_millis(SERVES_MS));
                counts.add(probe.stop());
            }
        }
        clients.iter_mut().for_each(Client::stop);
        clients.into_iter().for_each(|client| counts.add(client.report()));
        keeper.left_alone().into_iter().for_each(|complaint| counts.error(complaint));
        (Figures::new(self.kills, &counts, pauses), counts)
    }
}

/// How the clients of a keeper's daemon wait.
fn ways(keeper: &impl Keeper) -> Vec<Way> {
    let all = [Way::Hold, Way::Threads, Way::Tasks, Way::Tagged, Way::Fds, Way::Ends, Way::Shared];
    let mut ways = Vec::from(all);
    // Connecting again by hand is what the library is there for.
    ways.extend(keeper.has_store().then_some(Way::Raw));
    ways
}

struct Killing<'a, K> {
    kills: u32,
    keeper: &'a K,
    probe: &'a Probe,
    dice: Dice,
}

impl<K: Keeper> Killing<'_, K> {
    /// Ends as many lives as was ordered; answers the pauses.
    fn all(&mut self, counts: &mut Counts) -> Vec<DurNs> {
        let mut pauses = Vec::new();
        let mut left = self.kills;
        while left > 0 {
            idle(Duration::from_micros(self.dice.below(SERVES_MS * 1000)));
            // The last is asked to, as an upgrade asks. Without a store that ends every ticket.
            let asked = left == 1 && self.keeper.has_store();
            let mut ended = if asked { self.keeper.restart() } else { self.keeper.kill() };
            left -= 1;
            // One that was about to recover counts against a session: never two of them.
            if left > 1 && self.dice.below(IN_A_ROW) == 0 {
                idle(Duration::from_micros(self.dice.below(BEGINS_US)));
                ended = self.keeper.kill();
                left -= 1;
            }
            match self.probe.first_after(ended.sent, ended.dead) {
                Some(pause) => pauses.push(pause),
                None => {
                    counts.error(format_args!("no result after the end of life {}", ended.life));
                    return pauses;
                }
            }
            self.keeper.ready(ended.life + 1);
        }
        pauses
    }
}
