//! The kernels of a file by the specs that they are in: those that take the same buffers may compute the same, and are solvers of one.

use std::collections::BTreeSet;

use super::{Draft, Kernel, Parameter, ParameterKind, text};

/// A buffer that a kernel takes: its name, its elements, and whether it is written.
type Taken<'a> = (&'a str, &'a str, bool);

impl Kernel {
    /// The buffers that it takes, by name.
    fn taken(&self) -> Vec<Taken<'_>> {
        let values = self.parameters.iter().flat_map(Parameter::values);
        let mut taken: Vec<Taken<'_>> = values
            .filter_map(|value| match &value.kind {
                ParameterKind::Pointer { spelled, written, .. } => {
                    let is_written = *written && (value.usage.written || !value.usage.read);
                    Some((value.name.as_str(), spelled.as_str(), is_written))
                }
                _ => None,
            })
            .collect();
        taken.sort_unstable();
        taken
    }
}

impl Draft {
    /// Its kernels apart, where some can not compute what others do: those that take the same buffers are one spec.
    #[must_use]
    pub fn groups(&self) -> Vec<Self> {
        let mut groups: Vec<(Vec<Taken<'_>>, Vec<usize>)> = Vec::new();
        for (at, kernel) in self.kernels.iter().enumerate() {
            let taken = kernel.taken();
            match groups.iter_mut().find(|(known, _)| *known == taken) {
                Some((_, members)) => members.push(at),
                None => groups.push((taken, vec![at])),
            }
        }
        // One without buffers is no spec.
        if groups.len() > 1 {
            groups.retain(|(taken, _)| !taken.is_empty());
        }
        let is_one = groups.len() == 1;
        let part = |members: &Vec<usize>| Self {
            part: if is_one { None } else { self.part(members).part },
            ..self.part(members)
        };
        groups.iter().map(|(_, members)| part(members)).collect()
    }

    /// Some of its kernels, as a spec of their own.
    #[must_use]
    pub fn part(&self, kernels: &[usize]) -> Self {
        let kernels: Vec<Kernel> = kernels.iter().filter_map(|at| self.kernels.get(*at)).cloned().collect();
        let part = kernels.first().map(|kernel| {
            let number = kernel.overload.filter(|number| *number > 1).map(|number| number.to_string());
            format!("{}{}", kernel.name.replace("::", "_"), number.unwrap_or_default())
        });
        Self { kernels, part, ..self.clone() }
    }

    /// Gives each of `drafts`, which are of one source, a file of its own: `stem.toml`, or `stem_sum.toml` where there are several.
    pub fn set_files(drafts: &mut [Self], stem: &str) {
        let mut taken = BTreeSet::new();
        for draft in drafts {
            let name = draft.part.as_ref().map_or_else(|| stem.to_string(), |part| format!("{stem}_{part}"));
            let others = (2..).map(|number| format!("{name}_{number}"));
            let name = std::iter::once(name.clone()).chain(others).find(|name| taken.insert(name.clone()));
            draft.file = name.map(|name| format!("{name}.toml"));
        }
    }

    /// The file that the spec is written to.
    #[must_use]
    pub fn file(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }

    /// The solvers of its kernels, in their order.
    #[must_use]
    pub fn solvers(&self) -> Vec<String> {
        self.kernels.iter().map(text::solver_name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Language;
    use super::*;

    #[test]
    fn kernels_with_other_buffers_are_other_specs() {
        let text = "__global__ void a(const float* x, float* y, int n) { y[n] = x[n]; }\n\
            __global__ void hello(int n) { }\n\
            __global__ void half_of(const __half* x, __half* y, int n) { y[n] = x[n]; }\n\
            namespace v2 { __global__ void a(float* y, const float* x) { y[0] = x[0]; } }\n\
            __global__ void back(float* x, const float* y, int n) { x[n] = y[n]; }\n";
        let groups = Draft::new(Language::Gpu, "k.cu", text, |_| None).groups();
        let of = |draft: &Draft| (draft.part.clone(), draft.solvers());
        let expected = [("a", &["A", "V2A"][..]), ("half_of", &["HalfOf"]), ("back", &["Back"])];
        let expected = expected.map(|(part, solvers)| {
            (Some(part.to_string()), solvers.iter().map(ToString::to_string).collect::<Vec<_>>())
        });
        assert_eq!(groups.iter().map(of).collect::<Vec<_>>(), expected);
        assert!(groups[1].spec().contains("name = \"k-half-of\""), "{}", groups[1].spec());
        let one = Draft::new(Language::Gpu, "k.cu", "__global__ void a(float* x) { x[0] = 1; }", |_| None).groups();
        assert_eq!(one.iter().map(of).collect::<Vec<_>>(), [(None, vec!["A".to_string()])]);
    }

    #[test]
    fn names_of_deep_namespaces_are_short_enough() {
        let kernel = |name: &str| format!("__global__ void {name}(float* x_{name}) {{ x_{name}[0] = 1; }}");
        let text = format!(
            "namespace the_library_of_everybody::kernels::ON_THE_DEVICE::solvers {{ {} {} }}\n",
            kernel("first_step_of_several_steps"),
            kernel("second")
        );
        let groups = Draft::new(Language::Gpu, "k.cu", &text, |_| None).groups();
        let solvers: Vec<String> = groups.iter().flat_map(Draft::solvers).collect();
        let second = "TheLibraryOfEverybodyKernelsONTHEDEVICESolversSecond";
        assert_eq!(solvers, ["OfEverybodyKernelsONTHEDEVICESolversFirstStepOfSeveralSteps", second]);
        for group in &groups {
            let bundle = crate::Bundle { toml: group.spec(), ..group.bundle() };
            crate::KernelSpec::load(&bundle).unwrap_or_else(|error| panic!("{error}\n{}", group.spec()));
        }
        let name = groups[0].spec().lines().find_map(|line| line.strip_prefix("name = ").map(str::to_string));
        assert!(name.is_some_and(|name| name.ends_with("-first-step-of-several-steps\"")), "{}", groups[0].spec());
    }
}
