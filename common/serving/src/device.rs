//! The GPUs of file names: which architecture a name is of, by the table of architectures.

use bluefin_common::arch::{Architecture, ROWS, Vendor};

/// Whose a GPU is, as far as the engines spread a model otherwise on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// NVIDIA.
    Nvidia,
    /// AMD, of no family below.
    Amd,
    /// AMD's CDNA 4, on which SGLang makes the shared expert of MiniMax-M3 one of the others.
    AmdCdna4,
}

impl Maker {
    /// That of an architecture; NVIDIA's where it is not known.
    #[must_use]
    pub fn of(architecture: Option<&Architecture>) -> Self {
        match architecture {
            Some(row) if row.vendor == Vendor::Amd && row.family == "CDNA 4" => Self::AmdCdna4,
            Some(row) if row.vendor == Vendor::Amd => Self::Amd,
            _ => Self::Nvidia,
        }
    }
}

/// The architecture of a device by its name in a file: `NVIDIA_H100_80GB_HBM3` is sm_90. `None` for a name that the table does not have.
#[must_use]
pub fn architecture_of(device: &str) -> Option<&'static Architecture> {
    let lower = device.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let is_product = |product: &str| {
        words.contains(&product)
            || words.windows(2).any(|pair| pair.concat() == product)
            || words.windows(3).any(|three| three.concat() == product)
    };
    let found = |architecture: &&Architecture| architecture.products.iter().any(|(product, _)| is_product(product));
    // AMD's accelerators of another form factor leave the letter out: MI325_OAM.
    ROWS.iter().find(found).or_else(|| {
        let is_kin = |word: &&&str| word.starts_with("mi") && word.len() >= 5;
        let kin: Vec<String> = words.iter().filter(is_kin).map(|word| format!("{word}x")).collect();
        let found = |architecture: &&Architecture| {
            architecture.products.iter().any(|(product, _)| kin.iter().any(|word| word == product))
        };
        ROWS.iter().find(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_of_architectures() {
        for (device, arch) in [
            ("NVIDIA_H100_80GB_HBM3", "sm_90"),
            ("NVIDIA_H200", "sm_90"),
            ("NVIDIA_A100-SXM4-80GB", "sm_80"),
            ("NVIDIA_B200", "sm_100"),
            ("NVIDIA_GeForce_RTX_4090", "sm_89"),
            ("AMD_Instinct_MI300X", "gfx942"),
            ("AMD_Instinct_MI325_OAM", "gfx942"),
            ("AMD_Instinct_MI355X", "gfx950"),
        ] {
            assert_eq!(architecture_of(device).map(|row| row.name), Some(arch), "{device}");
        }
        assert!(architecture_of("Intel(R)_Arc(TM)_Pro_B60").is_none());
        let maker = |device| Maker::of(architecture_of(device));
        assert_eq!(
            ["NVIDIA H200", "AMD Instinct MI300X", "AMD Instinct MI355X", "?"].map(maker),
            [Maker::Nvidia, Maker::Amd, Maker::AmdCdna4, Maker::Nvidia]
        );
    }
}
