//! What `/sys/class/kfd/kfd/topology` of a machine with these GPUs holds, as far as tools look at it.

use std::fs;
use std::io;
use std::path::Path;

use crate::devices::{Gpu, pci_bus, unique_id};

/// Writes the topology of a [machine](crate::variables::MACHINE) with one CPU node and `gpus` into `folder`, which then stands for
/// `/sys/class/kfd/kfd/topology`. Each GPU has `memory` bytes.
///
/// # Errors
/// If a file can not be written.
pub fn write(folder: &Path, machine: u16, gpus: &[Gpu], memory: u64) -> io::Result<()> {
    let node = |number: usize, name: &str, gpu_id: u64, properties: String| {
        let node = folder.join("nodes").join(number.to_string());
        fs::create_dir_all(&node)?;
        fs::write(node.join("name"), format!("{name}\n"))?;
        fs::write(node.join("gpu_id"), format!("{gpu_id}\n"))?;
        fs::write(node.join("properties"), properties)
    };
    node(0, "", 0, "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\nvendor_id 0\nunique_id 0\n".to_string())?;
    for (index, gpu) in gpus.iter().enumerate() {
        let name = gpu.name().rsplit(' ').next().unwrap_or_default();
        node(index + 1, &name.to_lowercase(), 50_000 + index as u64, properties(machine, index, gpu))?;
        let bank = folder.join("nodes").join((index + 1).to_string()).join("mem_banks/0");
        fs::create_dir_all(&bank)?;
        fs::write(bank.join("properties"), format!("heap_type 1\nsize_in_bytes {memory}\nflags 0\nwidth 4096\n"))?;
    }
    Ok(())
}

fn properties(machine: u16, index: usize, gpu: &Gpu) -> String {
    let (major, minor, stepping) = gpu.version();
    // HIP counts work-group processors of two compute units on RDNA, KFD compute units.
    let (cus, simds) = if gpu.wave() == 32 { (gpu.cus * 2, 2) } else { (gpu.cus, 4) };
    let fields = [
        ("cpu_cores_count", 0),
        ("simd_count", u64::from(cus) * simds),
        ("mem_banks_count", 1),
        ("io_links_count", 1),
        ("max_waves_per_simd", 8),
        ("lds_size_in_kb", 64),
        ("gds_size_in_kb", 0),
        ("num_gws", 64),
        ("wave_front_size", u64::from(gpu.wave())),
        ("array_count", 8),
        ("simd_arrays_per_engine", 1),
        ("cu_per_simd_array", 16),
        ("simd_per_cu", simds),
        ("max_slots_scratch_cu", 32),
        ("gfx_target_version", u64::from(major * 10_000 + minor * 100 + stepping)),
        ("vendor_id", 4098),
        ("device_id", 29_711),
        ("location_id", u64::from(pci_bus(index)) << 8),
        ("domain", 0),
        ("drm_render_minor", 128 + index as u64),
        ("hive_id", 0),
        ("num_sdma_engines", 5),
        ("max_engine_clk_fcompute", 1700),
        ("local_mem_size", 0),
        ("fw_version", 72),
        ("capability", 1_275_765_672),
        ("sdma_fw_version", 8),
        ("unique_id", unique_id(machine, index)),
        ("num_xcc", u64::from(gpu.xccs())),
        ("max_engine_clk_ccompute", 3400),
    ];
    fields.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_for_each_gpu_and_one_for_the_cpu() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, &Gpu::list("gfx90a-104,gfx942-304").unwrap(), 1 << 30).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join("nodes").join(name)).unwrap();
        assert!(read("0/properties").contains("gfx_target_version 0\n"));
        assert!(read("1/properties").contains("gfx_target_version 90010\n"));
        assert!(read("2/properties").contains("gfx_target_version 90402\n"));
        assert!(read("2/properties").contains("simd_count 1216\n"));
        assert_eq!(read("2/name"), "mi300x\n");
    }
}
