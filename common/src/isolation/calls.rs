//! System calls that are refused: those that lead to a network, to other processes, or out of the process group.

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// No compiler and no kernel needs one of these. A socket of any kind: a name server, a message bus or a daemon of containers
/// listens on those of the machine as well. `io_uring` does what it is asked to past this filter.
const REFUSED: [libc::c_long; 39] = [
    libc::SYS_socket,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    // What leaves the process group is not ended with it.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
];

/// Signals, for kernels on which Landlock does not keep them within the sandbox.
const SIGNALS: [libc::c_long; 5] =
    [libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];

/// The bit by which calls of the x32 ABI differ, and those that have numbers of their own there.
#[cfg(target_arch = "x86_64")]
const X32: (libc::c_long, std::ops::Range<libc::c_long>) = (0x4000_0000, 512..548);

/// Refuses them to this thread, and to what it becomes and starts; signals as well if `signals` is set.
///
/// # Errors
/// If the kernel has filters and does not take this one.
pub(super) fn refuse(signals: bool) -> Result<(), seccompiler::Error> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let number = |errno: Errno| SeccompAction::Errno(errno.raw_os_error().unsigned_abs());
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED.iter().chain(SIGNALS.iter().filter(|_| signals)) {
        refused.insert(*call, Vec::new());
        #[cfg(target_arch = "x86_64")]
        refused.insert(*call | X32.0, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    refused.extend(X32.1.map(|call| (call | X32.0, Vec::new())));
    // A process that has a user namespace of its own is root in it.
    let user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let flag = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(user), user)?;
    refused.insert(libc::SYS_clone, vec![SeccompRule::new(vec![flag])?]);
    // Its arguments are in memory, where no filter sees them: the C library takes the older call instead.
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for (calls, errno) in [(refused, Errno::PERM), (newer, Errno::NOSYS)] {
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, number(errno), arch)?;
        let program: BpfProgram = filter.try_into()?;
        match apply_filter(&program) {
            // A kernel without filters, or a service manager that does not let them be set.
            Err(seccompiler::Error::Seccomp(error)) if is_missing(&error) => return Ok(()),
            applied => applied?,
        }
    }
    Ok(())
}

fn is_missing(error: &std::io::Error) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::PERM].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
