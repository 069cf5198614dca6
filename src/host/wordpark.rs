//! The CPU's word park: how one core waits for a store without asking the kernel.
//!
//! A *word park* watches one 64-byte line: it arms a *monitor* on the line, looks once more, and
//! stops the core until something writes to the line, or for one *slice*. Which instructions do
//! that is the CPU's choice: UMWAIT (Intel's WAITPKG), MWAITX (AMD's MONITORX), WFE (64-bit Arm);
//! where there are none, or a hypervisor masks them, PAUSE spins gently.
//!
//! What always holds: the value of type [`WordPark`] is the only way to the instructions, and
//! [`WordPark::detect`] the only way to the value. It asks CPUID (on Arm: the kernel) and never
//! tries: under a hypervisor that masks MWAITX an attempt traps, costs microseconds and ignores
//! its time-out. A park can end early for any reason; the line is looked at before each slice.

use crate::core::line::CompletionLine;
use crate::core::time::{Clock, MonoNs};

#[cfg(target_arch = "x86_64")]
use x86 as arch;

#[cfg(target_arch = "aarch64")]
use arm as arch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Monitor(arch::Monitor),
    Pause,
}

/// Proof of what this CPU can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordPark {
    kind: Kind,
}

impl WordPark {
    /// Finds out what this CPU has.
    pub fn detect() -> WordPark {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(monitor) = arch::detect() {
            return WordPark { kind: Kind::Monitor(monitor) };
        }
        WordPark { kind: Kind::Pause }
    }

    /// "umwait", "mwaitx", "wfe" or "pause": what runs.
    pub fn label(self) -> &'static str {
        match self.kind {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Kind::Monitor(monitor) => monitor.label(),
            Kind::Pause => "pause",
        }
    }

    /// Between two looks at several lines: leaves the core's other thread its share. Tens of
    /// nanoseconds.
    pub fn pause(self) {
        std::hint::spin_loop();
    }

    /// Parks while `unchanged` says so of the line, until `until` of this clock. `unchanged` reads
    /// words of the line and nothing else.
    pub fn park(
        self,
        line: &CompletionLine,
        unchanged: impl Fn() -> bool,
        clock: &impl Clock,
        until: MonoNs,
    ) {
        loop {
            self.arm(line);
            // After arming: a store before this look is seen by it, one after it ends the slice.
            let now = clock.now();
            if !unchanged() || now >= until {
                return;
            }
            self.slice(until.since(now).0);
        }
    }

    fn arm(self, _line: &CompletionLine) {
        match self.kind {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Kind::Monitor(monitor) => monitor.arm(_line),
            Kind::Pause => {}
        }
    }

    /// Waits for a store to the armed line, at most about `ns` nanoseconds.
    fn slice(self, _ns: u64) {
        match self.kind {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Kind::Monitor(monitor) => monitor.wait(_ns),
            Kind::Pause => self.pause(),
        }
    }
}

/// A slice in ticks of a counter that runs at 1 GHz or faster, as every time-stamp counter with
/// these instructions does: one tick a nanosecond never waits too long. Bounded, so that a store
/// that the monitor missed (a page moved under it) costs little.
#[cfg(target_arch = "x86_64")]
fn ticks(ns: u64) -> u32 {
    ns.min(100_000) as u32
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid_count, _rdtsc};

    use super::ticks;
    use crate::core::line::CompletionLine;

    /// Which instructions there are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Monitor {
        Umwait,
        Mwaitx,
    }

    /// CPUID leaf 7, ECX: WAITPKG.
    const WAITPKG: u32 = 1 << 5;
    /// CPUID leaf 0x8000_0001, ECX: MONITORX.
    const MONITORX: u32 = 1 << 29;

    pub(super) fn detect() -> Option<Monitor> {
        let has = |leaf: u32, bit: u32| {
            // Leaves beyond the last one answer with another leaf's values.
            let last = cpuid(leaf & 0x8000_0000).0;
            last >= leaf && cpuid(leaf).1 & bit != 0
        };
        if has(7, WAITPKG) {
            Some(Monitor::Umwait)
        } else if has(0x8000_0001, MONITORX) {
            Some(Monitor::Mwaitx)
        } else {
            None
        }
    }

    /// EAX and ECX of a leaf.
    #[allow(unused_unsafe)] // Safe in newer releases of Rust than the oldest supported one.
    fn cpuid(leaf: u32) -> (u32, u32) {
        // SAFETY: every 64-bit x86 CPU has CPUID.
        let all = unsafe { __cpuid_count(leaf, 0) };
        (all.eax, all.ecx)
    }

    impl Monitor {
        pub(super) fn label(self) -> &'static str {
            match self {
                Monitor::Umwait => "umwait",
                Monitor::Mwaitx => "mwaitx",
            }
        }

        pub(super) fn arm(self, line: &CompletionLine) {
            let at = std::ptr::from_ref(line);
            match self {
                // SAFETY: CPUID has WAITPKG (the value proves it); UMONITOR is a load of the line,
                // which is live.
                Monitor::Umwait => unsafe {
                    asm!("umonitor {at}", at = in(reg) at, options(nostack, preserves_flags));
                },
                // SAFETY: CPUID has MONITORX (the value proves it); MONITORX with no extensions
                // and no hints is a load of the line, which is live.
                Monitor::Mwaitx => unsafe {
                    asm!("monitorx", in("rax") at, in("ecx") 0, in("edx") 0,
                        options(nostack, preserves_flags));
                },
            }
        }

        pub(super) fn wait(self, ns: u64) {
            match self {
                Monitor::Umwait => umwait(ticks(ns)),
                Monitor::Mwaitx => mwaitx(ticks(ns)),
            }
        }
    }

    fn umwait(ticks: u32) {
        /// State C0.1: the shallower of the two, for the faster way back.
        const C0_1: u32 = 1;
        // SAFETY: the time-stamp counter can be read wherever UMWAIT can.
        let until = unsafe { _rdtsc() }.wrapping_add(ticks.into());
        // SAFETY: only reached by a value that proves WAITPKG. UMWAIT changes the flags alone and
        // goes on at the latest at the deadline in EDX:EAX, or the system's own bound.
        unsafe {
            asm!("umwait {state:e}", state = in(reg) C0_1,
                in("eax") until as u32, in("edx") (until >> 32) as u32, options(nostack));
        }
    }

    fn mwaitx(ticks: u32) {
        /// No C-state below C0.
        const C0: u32 = 0xF0;
        /// EBX holds the most ticks to wait.
        const TIMED: u32 = 1 << 1;
        // SAFETY: only reached by a value that proves MONITORX. MWAITX changes no register; the
        // compiler's RBX is put back.
        unsafe {
            asm!("xchg {ticks:r}, rbx", "mwaitx", "xchg {ticks:r}, rbx",
                ticks = inout(reg) u64::from(ticks) => _, in("eax") C0, in("ecx") TIMED,
                options(nostack, preserves_flags));
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::asm;

    use crate::core::line::CompletionLine;

    /// WFE, with the kernel's event stream as its bound.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Monitor(());

    /// Linux runs the event stream at 10 kHz or faster.
    const STREAM_NS: u64 = 100_000;

    pub(super) fn detect() -> Option<Monitor> {
        event_stream().then_some(Monitor(()))
    }

    /// Whether WFE is sure to end in time: without the stream it can last until an interrupt.
    #[cfg(target_os = "linux")]
    fn event_stream() -> bool {
        /// asm/hwcap.h: HWCAP_EVTSTRM.
        const EVENT_STREAM: libc::c_ulong = 1 << 2;
        // SAFETY: getauxval takes a number and looks it up.
        unsafe { libc::getauxval(libc::AT_HWCAP) & EVENT_STREAM != 0 }
    }

    #[cfg(not(target_os = "linux"))]
    fn event_stream() -> bool {
        false
    }

    impl Monitor {
        pub(super) fn label(self) -> &'static str {
            "wfe"
        }

        /// A load-exclusive arms the core's monitor; a store by another core clears it, which is
        /// the event that WFE waits for.
        pub(super) fn arm(self, line: &CompletionLine) {
            let at = std::ptr::from_ref(line);
            // SAFETY: a load-acquire-exclusive of the line's first word, which is live and aligned.
            unsafe {
                asm!("ldaxr {word}, [{at}]", at = in(reg) at, word = out(reg) _,
                    options(nostack, preserves_flags, readonly));
            }
        }

        /// A slice that the stream could make too long is a pause.
        pub(super) fn wait(self, ns: u64) {
            if ns < STREAM_NS {
                std::hint::spin_loop();
                return;
            }
            // SAFETY: WFE touches no memory and no register, and the event stream ends it.
            unsafe { asm!("wfe", options(nomem, nostack, preserves_flags)) };
        }
    }
}

#[cfg(test)]
#[path = "wordpark_tests.rs"]
mod tests;
