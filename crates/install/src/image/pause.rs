//! The program that holds a Pod's namespaces open: an ELF file of a few hundred bytes, written here word by word.
//!
//! It blocks all signals and waits for them: SIGTERM and SIGINT end it, SIGCHLD makes it collect whoever was left to it (it is
//! process 1 of Pods that share process ids). Blocked signals are queued even for process 1, which no handler would be needed for.
//!
//! ```text
//!     rt_sigprocmask(SIG_BLOCK, all, 0, 8)
//! wait:
//!     signal = rt_sigtimedwait(all, 0, 0, 8)
//!     if signal is SIGTERM or SIGINT: exit_group(0)
//!     if signal is not SIGCHLD: goto wait
//! reap:
//!     if wait4(-1, 0, WNOHANG, 0) > 0: goto reap
//!     goto wait
//! all:
//!     eight bytes of ones
//! ```

use super::ImageError;

/// Where the file is in memory; its code follows the headers.
const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

const X86_64: [u8; 108] = [
    0x31, 0xff, // xor edi, edi
    0x48, 0x8d, 0x35, 0x5b, 0x00, 0x00, 0x00, // lea rsi, [all]
    0x31, 0xd2, // xor edx, edx
    0x41, 0xba, 0x08, 0x00, 0x00, 0x00, // mov r10d, 8
    0xb8, 0x0e, 0x00, 0x00, 0x00, // mov eax, rt_sigprocmask
    0x0f, 0x05, // syscall
    0x48, 0x8d, 0x3d, 0x45, 0x00, 0x00, 0x00, // wait: lea rdi, [all]
    0x31, 0xf6, // xor esi, esi
    0x31, 0xd2, // xor edx, edx
    0x41, 0xba, 0x08, 0x00, 0x00, 0x00, // mov r10d, 8
    0xb8, 0x80, 0x00, 0x00, 0x00, // mov eax, rt_sigtimedwait
    0x0f, 0x05, // syscall
    0x83, 0xf8, 0x0f, // cmp eax, SIGTERM
    0x74, 0x26, // je exit
    0x83, 0xf8, 0x02, // cmp eax, SIGINT
    0x74, 0x21, // je exit
    0x83, 0xf8, 0x11, // cmp eax, SIGCHLD
    0x75, 0xd9, // jne wait
    0xbf, 0xff, 0xff, 0xff, 0xff, // reap: mov edi, -1
    0x31, 0xf6, // xor esi, esi
    0xba, 0x01, 0x00, 0x00, 0x00, // mov edx, WNOHANG
    0x45, 0x31, 0xd2, // xor r10d, r10d
    0xb8, 0x3d, 0x00, 0x00, 0x00, // mov eax, wait4
    0x0f, 0x05, // syscall
    0x85, 0xc0, // test eax, eax
    0x7f, 0xe6, // jg reap
    0xeb, 0xbd, // jmp wait
    0x31, 0xff, // exit: xor edi, edi
    0xb8, 0xe7, 0x00, 0x00, 0x00, // mov eax, exit_group
    0x0f, 0x05, // syscall
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // all
];

const AARCH64: [u32; 33] = [
    0xd280_0000, // mov x0, SIG_BLOCK
    0x1000_03c1, // adr x1, all
    0xd280_0002, // mov x2, 0
    0xd280_0103, // mov x3, 8
    0xd280_10e8, // mov x8, rt_sigprocmask
    0xd400_0001, // svc 0
    0x1000_0320, // wait: adr x0, all
    0xd280_0001, // mov x1, 0
    0xd280_0002, // mov x2, 0
    0xd280_0103, // mov x3, 8
    0xd280_1128, // mov x8, rt_sigtimedwait
    0xd400_0001, // svc 0
    0x7100_3c1f, // cmp w0, SIGTERM
    0x5400_01c0, // b.eq exit
    0x7100_081f, // cmp w0, SIGINT
    0x5400_0180, // b.eq exit
    0x7100_441f, // cmp w0, SIGCHLD
    0x54ff_fea1, // b.ne wait
    0x9280_0000, // reap: mov x0, -1
    0xd280_0001, // mov x1, 0
    0xd280_0022, // mov x2, WNOHANG
    0xd280_0003, // mov x3, 0
    0xd280_2088, // mov x8, wait4
    0xd400_0001, // svc 0
    0x7100_001f, // cmp w0, 0
    0x54ff_ff2c, // b.gt reap
    0x17ff_ffec, // b wait
    0xd280_0000, // exit: mov x0, 0
    0xd280_0bc8, // mov x8, exit_group
    0xd400_0001, // svc 0
    0xd503_201f, // nop, for the eight bytes to be aligned
    0xffff_ffff, // all
    0xffff_ffff,
];

/// The file for a machine, as Rust names it.
pub(super) fn program(architecture: &'static str) -> Result<Vec<u8>, ImageError> {
    let (machine, code): (u16, Vec<u8>) = match architecture {
        "x86_64" => (62, X86_64.to_vec()),
        "aarch64" => (183, AARCH64.iter().flat_map(|word| word.to_le_bytes()).collect()),
        other => return Err(ImageError::Architecture(other)),
    };
    let size = HEADERS + code.len() as u64;
    let mut file = Vec::with_capacity(size as usize);
    // 64 bit, little-endian, first version.
    file.extend(b"\x7fELF\x02\x01\x01");
    file.extend([0; 9]);
    // An executable, for this machine, first version.
    file.extend(2_u16.to_le_bytes());
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    // Begins after the headers; program headers follow this one; there are no sections.
    for word in [BASE + HEADERS, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // The whole file is loaded, to be read and run.
    file.extend(1_u32.to_le_bytes());
    file.extend(5_u32.to_le_bytes());
    for word in [0, BASE, BASE, size, size, 0x1_0000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::child::Child;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_waits_until_it_is_told_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pause");
        let Ok(program) = program(std::env::consts::ARCH) else { return };
        std::fs::write(&file, program).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Started through a shell, so that nobody of this process still holds the file open for writing when it is run.
        let words = ["-c".to_owned(), format!("exec {}", file.display())];
        let mut child = Child::start("/bin/sh".as_ref(), &words, &[]).unwrap();
        // It sleeps only where it waits for signals; the shell before it bears another name.
        let sleeps = |id: u32| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            status.starts_with("Name:\tpause\n") && status.contains("State:\tS")
        };
        while !sleeps(child.id()) {
            assert_eq!(child.ended(), None);
            std::thread::yield_now();
        }
        child.terminate();
        let ended = loop {
            if let Some(ended) = child.ended() {
                break ended;
            }
            std::thread::yield_now();
        };
        assert_eq!(ended, "exit status: 0");
    }

    #[test]
    fn machines_without_one_are_named() {
        assert_eq!(program("aarch64").unwrap().len(), 252);
        let want = "there is no pause for riscv64; known are x86_64 and aarch64";
        assert_eq!(program("riscv64").unwrap_err().to_string(), want);
    }
}
