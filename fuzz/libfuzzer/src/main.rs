//! One target under libFuzzer, chosen by FUZZ_TARGET; `scripts/fuzz` starts it.
#![no_main]

use fuzz::Target;
use std::sync::OnceLock;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: prepare(), |data: &[u8]| {
    report_overflows();
    if let Some(target) = TARGET.get() {
        (target.run)(data);
    }
});

fn prepare() {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    if name == "list" {
        fuzz::targets().for_each(|target| println!("{} {}", target.name, target.longest));
        std::process::exit(0);
    }
    let Some(target) = fuzz::find(&name) else {
        let names: Vec<&str> = fuzz::targets().map(|target| target.name).collect();
        eprintln!("FUZZ_TARGET: {name:?} is not a target; accepted: list, {}", names.join(", "));
        std::process::exit(2);
    };
    let _ = TARGET.set(target);
    let abort = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The parser of CEL is not ours and panics on some texts; `schema::cel::parse` expects that and says no.
        if std::thread::current().name() != Some("cel-compile") {
            abort(panic);
        }
    }));
}

/// Lets libFuzzer's handler of SIGSEGV run although the stack is full: otherwise the input that filled it is not kept.
fn report_overflows() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let stack = Vec::leak(vec![0_u8; 256 << 10]);
        // SAFETY: the alternate stack lives as long as the process, and the handler is the one that was there.
        unsafe {
            let alternate =
                libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
            libc::sigaltstack(&alternate, std::ptr::null_mut());
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut action) == 0 {
                action.sa_flags |= libc::SA_ONSTACK;
                libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
            }
        }
    });
}
