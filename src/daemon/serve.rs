//! `parkd serve`: from a configuration to a running daemon, and to its end.
//!
//! The main thread becomes the desk. FILL is started last and pins itself: threads inherit
//! affinity, and only FILL is to be bound to its CPU.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};

use super::allow::Allow;
use super::command::{self, FillEnd};
use super::config::{Config, Cpu};
use super::desk::{Desk, Setup};
use super::fill::{Awake, Fill};
use super::listen::Listener;
use super::store::{Inherited, Store};
use super::{log, trial, wakes};
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::kind::Resolved;
use crate::core::time::DurNs;
use crate::engine;
use crate::host::fill::FillHost;
use crate::host::kinds;
use crate::host::signals::Signals;
use crate::host::{affinity, clock, fds, slice};
use crate::proto::layout::BellKind;
use crate::shm::area::{Area, open_status};
use crate::shm::region::{ReadWrite, Region};
use crate::shm::status::{StatusPage, StatusReader};

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// Coded: what kept it from starting, or ended it.
pub fn serve(config: Config) -> Result<()> {
    log::start();
    let signals = Signals::block(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
        .map_err(|e| Error::new(ErrorCode::SystemFailed, format!("signals: {e}")))?;
    let mut warnings = Vec::from_iter(raise_nofile());
    let executor = kinds::resolve(config.daemon.executor.name(), config.daemon.strict)?;
    warnings.extend(executor.warning().into_iter().chain(kinds::exposed(executor.running)));
    let mut bell = bell_kind(config.daemon.bell, &executor, &mut warnings);
    let cpu = fill_cpu(config.daemon.cpu)?;
    let awake = wakes::begin(config.park.pm_qos, cpu, &mut warnings);
    let (allow, unknown) = Allow::resolve(&config.allow);
    warnings.extend(unknown);
    let inherited = Inherited::take()?;
    let store = Store::detect(config.daemon.fd_store);
    let listener = listen(inherited.listener, &config, &allow, &mut warnings)?;
    let wanted = bell;
    let to_try = trial::due(executor.running, &config.daemon.socket, &mut bell, &mut warnings);
    // An earlier life's sessions may have futexes: not to be relied on where they came into doubt.
    let words = kinds::watches_words(executor.running) && bell == wanted;
    inherited.broken.iter().for_each(|&serial| store.forget(serial));
    let (status, page, generation) = begin_status(inherited.status, &store, &executor.label())?;
    let (desk_end, fill_end) = command::queues(StatusReader::new(open_status(status.as_fd())?)?)?;
    warnings.iter().for_each(log::warning);
    let executor_label = executor.label();
    let engine = engine_config(&config);
    let setup = Setup {
        engine: engine.clone(),
        allow,
        listener,
        store,
        kept: inherited.sessions,
        to_try,
        end: desk_end,
        status,
        signals,
        executor: executor_label.clone(),
        bell,
        cpu,
        warnings,
        generation,
        config,
    };
    let fill = FillSetup { words, awake, config: engine, cpu, end: fill_end, page };
    let desk = Desk::new(setup)?;
    let thread = start_fill(&executor, fill)?;
    tracing::info!(executor = executor_label, ?bell, cpu, "serving");
    let ended = desk.run();
    let _ = thread.join();
    ended
}

/// Has this process open as many fds as it may; a warning where they are few.
fn raise_nofile() -> Option<Error> {
    let failed = fds::raise_nofile().err()?;
    Some(Error::new(ErrorCode::PrivilegeMissing, format!("RLIMIT_NOFILE: {failed}")))
}

/// The listening socket: the service manager's, where it hands one over.
fn listen(
    inherited: Option<OwnedFd>,
    config: &Config,
    allow: &Allow,
    warnings: &mut Vec<Error>,
) -> Result<Listener> {
    let path = &config.daemon.socket;
    if let Some(socket) = inherited {
        return Listener::inherited(socket, path);
    }
    let (listener, warning) = Listener::bind(path, allow.socket_gid())?;
    warnings.extend(warning);
    Ok(listener)
}

/// The status page: an earlier life's, where there was one, else a new one. Answers which life of
/// the daemon begins.
fn begin_status(
    kept: Option<OwnedFd>,
    store: &Store,
    executor: &str,
) -> Result<(Area, StatusPage<Region<ReadWrite>>, u32)> {
    let status = match kept {
        Some(fd) => {
            open_status(&fd)?;
            Area::from_fd(fd)?
        }
        None => {
            let status = Area::status()?;
            store.keep_status(status.as_fd())?;
            status
        }
    };
    let page = StatusPage::new(status.map::<ReadWrite>()?)?;
    let generation = page.generation().wrapping_add(1).max(1);
    page.begin(generation, executor);
    Ok((status, page, generation))
}

/// What FILL is started with.
struct FillSetup {
    words: bool,
    awake: Awake,
    config: engine::Config,
    cpu: Option<u32>,
    end: FillEnd,
    page: StatusPage<Region<ReadWrite>>,
}

/// How bells are rung: as configured, where the executor can.
fn bell_kind(wanted: Option<BellKind>, executor: &Resolved, warnings: &mut Vec<Error>) -> BellKind {
    let words = kinds::watches_words(executor.running);
    match wanted {
        Some(BellKind::Futex) if !words => {
            let running = executor.running;
            let text = format!("bell: futex is not available ({running}), eventfd is used");
            warnings.push(Error::new(ErrorCode::BellFallback, text));
            BellKind::Eventfd
        }
        Some(kind) => kind,
        None if words => BellKind::Futex,
        None => BellKind::Eventfd,
    }
}

/// The CPU that FILL is to be pinned to.
fn fill_cpu(cpu: Cpu) -> Result<Option<u32>> {
    match cpu {
        Cpu::Auto => affinity::choose_auto().map(Some),
        Cpu::Number(cpu) => {
            let allowed = affinity::allowed()
                .map_err(|e| Error::new(ErrorCode::SystemFailed, format!("affinity: {e}")))?;
            if allowed.contains(&cpu) {
                return Ok(Some(cpu));
            }
            let text = format!("cpu {cpu} is not in this process's affinity mask {allowed:?}");
            Err(Error::new(ErrorCode::CpuUnavailable, text))
        }
    }
}

/// The engine's settings from the operator's.
fn engine_config(config: &Config) -> engine::Config {
    engine::Config {
        park: DurNs::from_us(config.park.park_us.into()),
        backstop: DurNs::from_us(config.park.backstop_us.into()),
        spin: DurNs::from_us(config.park.spin_us.into()),
        spin_budget_percent: config.park.spin_budget_percent,
        estimator: config.predict.estimator,
        late_percent: config.predict.late_percent,
        devices: config.devices.iter().map(|device| device.plan).collect(),
        tickets: config.limits.tickets,
        tickets_per_uid: config.limits.tickets_per_uid,
        submits_per_second: config.limits.submits_per_second,
    }
}

type Thread = std::thread::JoinHandle<()>;

/// Starts the FILL thread and waits until it has its host.
fn start_fill(executor: &Resolved, setup: FillSetup) -> Result<Thread> {
    let (ready, started) = sync_channel(1);
    let running = executor.running;
    let thread = std::thread::Builder::new()
        .name("parkd-fill".to_owned())
        .spawn(move || {
            let _guard = EndOnPanic;
            match running {
                kinds::IO_URING => fill(kinds::io_uring, setup, ready),
                kinds::GPU_REACTOR => fill(kinds::gpu_reactor, setup, ready),
                _ => fill(kinds::naive, setup, ready),
            }
        })
        .map_err(|e| Error::new(ErrorCode::SystemFailed, format!("thread: {e}")))?;
    match started.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::new(ErrorCode::SystemFailed, "FILL ended at its start")),
    }
}

/// A daemon whose FILL has panicked serves nobody: it ends at once, and is started anew.
struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// The FILL thread's life.
fn fill<H: FillHost>(
    host: impl FnOnce() -> Result<H>,
    setup: FillSetup,
    ready: SyncSender<Result<()>>,
) {
    let FillSetup { words, awake, config, cpu, end, page } = setup;
    let made = cpu.map_or(Ok(()), affinity::pin_current).and_then(|()| host());
    // 1 ns: the parks are short, and the kernel's 50 us of slack would be their half.
    let _ = NonZeroU64::new(1).map(clock::set_timer_slack);
    // A client that looks by itself, on FILL's CPU, must not keep FILL from looking in time.
    let _ = slice::set_current(slice::SHORTEST_NS);
    let made = made.and_then(|host| Fill::new(host, words, config, awake, end, page));
    match made {
        Ok(fill) => {
            let _ = ready.send(Ok(()));
            fill.run();
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    }
}
