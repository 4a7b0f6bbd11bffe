//! Scalars that are loaded in part, and those that come from clocks.

use bluefin_amd::{Fault, Memory, Target};

use crate::support::{Arguments, Tools, dwords, launch, run, verdict};

/// Of gfx12: one and two bytes, extended.
#[test]
fn scalars_of_bytes_are_loaded() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = Target::named("gfx1201") else { return };
    let loads = [("s_load_u8", 1), ("s_load_i8", 1), ("s_load_u16", 2), ("s_load_i16", 2)];
    let body: String = loads
        .iter()
        .enumerate()
        .map(|(at, (load, bytes))| {
            format!(
                "asm volatile(\"{load} %0, %1, {}\\ns_wait_kmcnt 0x0\" : \"=s\"(v) : \"s\"(in)); out[{at}] = v;",
                4 - bytes
            )
        })
        .collect();
    let source = format!(
        "extern \"C\" __attribute__((global)) void f(unsigned* out, const unsigned* in) {{ unsigned v; {body} }}"
    );
    let program = tools.program(&source, target);
    let mut memory = Memory::new();
    let [out, from] = ["out", "in"].map(|name| memory.allocate(name, 16, 4));
    memory.write(from, &[1, 2, 0x83, 0xf4]).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(from);
    run(&program, &mut memory, &launch("f", 1, 1, &arguments), 0);
    assert_eq!(dwords(&memory, out, 4), [0xf4, 0xffff_fff4, 0xf483, 0xffff_f483]);
}

/// Clocks go on, and what is asked of elsewhere is waited for.
#[test]
fn clocks_go_on() {
    let Some(tools) = Tools::find() else { return };
    for (target, read, wait) in [
        ("gfx90a", "s_memtime %0", "s_waitcnt lgkmcnt(0)"),
        ("gfx942", "s_memrealtime %0", "s_waitcnt lgkmcnt(0)"),
        ("gfx1100", "s_sendmsg_rtn_b64 %0, sendmsg(MSG_RTN_GET_REALTIME)", "s_waitcnt lgkmcnt(0)"),
        ("gfx1201", "s_sendmsg_rtn_b64 %0, sendmsg(MSG_RTN_GET_REALTIME)", "s_wait_kmcnt 0x0"),
        ("gfx1030", "s_getreg_b32 %L0, hwreg(HW_REG_SHADER_CYCLES, 0, 20)\\ns_mov_b32 %H0, 0", "s_nop 0"),
        (
            "gfx1201",
            "s_getreg_b32 %L0, hwreg(HW_REG_SHADER_CYCLES_LO)\\ns_getreg_b32 %H0, hwreg(HW_REG_SHADER_CYCLES_HI)",
            "s_nop 0",
        ),
    ] {
        let Some(target) = Target::named(target) else { continue };
        let is_register = read.contains("%L0");
        let of = |wait: &str| {
            let text = if is_register {
                read.replace("%L0", "s20").replace("%H0", "s21") + "\\ns_mov_b64 %0, s[20:21]"
            } else {
                read.to_string()
            };
            let clock = format!("asm volatile(\"{text}\\n{wait}\" : \"=s\"(t) :: \"s20\", \"s21\");");
            format!(
                "extern \"C\" __attribute__((global)) void f(unsigned long* out) {{ unsigned long t; {clock} out[0] = t; \
                 asm volatile(\"s_nop 0\\ns_nop 0\"); {clock} out[1] = t; }}"
            )
        };
        let mut memory = Memory::new();
        let out = memory.allocate("out", 16, 8);
        let arguments = Arguments::default().pointer(out);
        run(&tools.program(&of(wait), target), &mut memory, &launch("f", 1, 1, &arguments), 0);
        let found = dwords(&memory, out, 4);
        assert!(found[0] < found[2] && found[1] == 0 && found[3] == 0, "{}: {found:?}", target.name);
        if !is_register {
            let program = tools.program(&of("s_nop 0"), target);
            let fault = verdict(&program, &mut memory, &launch("f", 1, 1, &arguments)).fault;
            assert!(matches!(fault, Fault::Unwaited { .. }), "{}: {fault}", target.name);
        }
    }
}

/// A scalar register whose number M0 makes is waited for as one that an instruction names.
#[test]
fn registers_that_m0_numbers_are_waited_for() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = Target::named("gfx1100") else { return };
    let program = |wait: &str| {
        let text = format!(
            "s_load_b32 s21, %1, 0x4\\ns_mov_b32 m0, 1\\n{wait}\\ns_movrels_b32 %0, s20\\ns_waitcnt lgkmcnt(0)"
        );
        tools.program(
            &format!(
                "extern \"C\" __attribute__((global)) void f(unsigned* out, const unsigned* in) {{ unsigned v; \
                 asm volatile(\"{text}\" : \"=s\"(v) : \"s\"(in) : \"s20\", \"s21\"); out[0] = v; }}"
            ),
            target,
        )
    };
    let mut memory = Memory::new();
    let [out, from] = ["out", "in"].map(|name| memory.allocate(name, 8, 4));
    memory.write(from, &[1, 2, 3, 4, 5, 6, 7, 8]).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(from);
    run(&program("s_waitcnt lgkmcnt(0)"), &mut memory, &launch("f", 1, 1, &arguments), 0);
    assert_eq!(dwords(&memory, out, 1), [0x0807_0605]);
    let fault = verdict(&program("s_nop 0"), &mut memory, &launch("f", 1, 1, &arguments)).fault;
    assert!(matches!(fault, Fault::Unwaited { .. }), "{fault}");
}
