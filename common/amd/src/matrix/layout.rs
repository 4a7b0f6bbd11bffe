//! Where the elements of the matrices lie.

use super::sparse::{self, Chosen};
use super::{Element, Halves, Matrix, Modifiers, Operand, Pattern, Unit};

/// The layout of an instruction in a wave of so many lanes, modifiers applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub a: Factor,
    pub b: Factor,
    pub result: Results,
    /// Rows (which are columns of B), depth and blocks.
    pub size: usize,
    depth: usize,
    pub blocks: usize,
    /// Columns of A that are there.
    pub columns_of_a: usize,
    /// The first bit of the indices of a sparse A.
    pub first_index: usize,
}

/// A or B. The elements of one k and one block are in adjacent lanes, at one place of their registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    pub registers: usize,
    element: Element,
    /// Elements of a lane whose k follow each other.
    chunk: usize,
    /// Lanes from one group of k to the next.
    stride: usize,
    /// How many groups of lanes the k of a row are in.
    groups_of_k: usize,
    size: usize,
    /// Two to this many blocks use that one of them which `chosen` says.
    broadcast: u32,
    chosen: usize,
    /// For each of the four groups of 16 lanes, which one is read instead.
    groups: [usize; 4],
    /// Of WMMA each lane has so many copies, 16 lanes apart.
    pub copies: usize,
    /// Registers from this one on are in the lanes from 32 on, as the first ones.
    folded: Option<usize>,
}

/// C and D. The elements of one row and one block are in adjacent lanes of one register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Results {
    pub registers: usize,
    pub element: Element,
    pub high: bool,
    /// Two rows in each register.
    packed: bool,
    /// Rows in adjacent registers.
    height: usize,
    /// Such stripes of rows side by side in one register.
    stripes: usize,
    /// Blocks side by side in one register.
    beside: usize,
    /// Registers (pairs, for FP64) of a block.
    span: usize,
    size: usize,
    /// As a factor's.
    folded: Option<usize>,
}

/// Where the elements of one k, or of one row, are: the first one's lane, and the place in the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The first of two for FP64.
    pub register: usize,
    /// The element's lowest bit in the register.
    pub shift: usize,
    pub lane: usize,
}

impl Layout {
    /// Without modifiers.
    pub fn of(matrix: &Matrix, lanes: usize) -> Layout {
        let size = matrix.rows;
        let result = if matrix.unit == Unit::Pairs {
            // Rows in adjacent registers, two to a register where they have 16 bits.
            let packed = matrix.result.bits() == 16;
            let (registers, folded) = fold(if packed { 4 } else { 8 }, lanes);
            Results {
                registers,
                element: matrix.result,
                high: false,
                packed,
                height: 8,
                stripes: 2,
                beside: 1,
                span: 8,
                size,
                folded,
            }
        } else if matrix.is_wmma() {
            // A register has the rows of each 16 lanes; 16-bit results take a register each.
            Results {
                registers: 16 * 16 / lanes,
                element: matrix.result,
                high: false,
                packed: false,
                height: 1,
                stripes: lanes / 16,
                beside: 1,
                span: 16 * 16 / lanes,
                size,
                folded: None,
            }
        } else {
            let height = if matrix.result == Element::F64 { 1 } else { 4 };
            let words = matrix.result.bits() / 32;
            Results {
                registers: (size * size * matrix.blocks / 64) * words,
                element: matrix.result,
                high: false,
                packed: false,
                height,
                stripes: 64 / size,
                beside: 64usize.div_ceil(size * size / height),
                span: size * size / 64,
                size,
                folded: None,
            }
        };
        let columns_of_a = if matrix.sparse { matrix.depth / 2 } else { matrix.depth };
        Layout {
            a: Factor::of(matrix, matrix.a, columns_of_a, lanes),
            b: Factor::of(matrix, matrix.b, matrix.depth, lanes),
            result,
            size,
            depth: matrix.depth,
            blocks: matrix.blocks,
            columns_of_a,
            first_index: 0,
        }
    }

    pub fn modified(mut self, matrix: &Matrix, modifiers: Modifiers) -> Layout {
        if matrix.sparse {
            self.first_index = 2 * self.a.elements() * sparse::set(matrix, modifiers);
        } else {
            self.a.broadcast = u32::from(modifiers.cbsz);
            self.a.chosen = usize::from(modifiers.abid);
        }
        if matrix.pattern == Pattern::Lanes {
            // "MI300 ISA", VOP3P-MAI fields, BLGP.
            self.b.groups = match modifiers.blgp {
                1 => [0, 1, 0, 1],
                2 => [2, 3, 2, 3],
                3 => [1, 2, 3, 0],
                4 => [0; 4],
                5 => [1; 4],
                6 => [2; 4],
                7 => [3; 4],
                _ => [0, 1, 2, 3],
            };
        }
        self.result.high = modifiers.op_sel & 4 != 0;
        self
    }

    /// Registers of A, B and the result.
    pub fn registers(&self) -> [usize; 3] {
        [self.a.registers, self.b.registers, self.result.registers]
    }

    /// See [`Matrix::poison`] and [`Matrix::poison_sparse`].
    pub fn poison(&self, [a, b, c]: [&[Halves]; 3], index: Option<(&Chosen, Halves)>, d: &mut [Halves]) {
        let clean = |registers: &[Halves]| registers.iter().all(|halves| *halves == [0, 0]);
        let factors_clean = clean(a) && clean(b) && index.is_none_or(|(_, unwritten)| unwritten == [0, 0]);
        for block in 0..self.blocks {
            // Bit i is row i of A; bit j is column j of B, for each k.
            let (mut rows, mut columns) = (0u64, vec![0u64; self.depth]);
            if !factors_clean {
                for k in 0..self.columns_of_a {
                    rows |= self.a.poisoned(a, block, k);
                    rows |= index.map_or(0, |(_, unwritten)| self.unwritten_indices(k, unwritten));
                }
                columns.iter_mut().enumerate().for_each(|(k, columns)| *columns = self.b.poisoned(b, block, k));
            }
            let any = columns.iter().fold(0, |all, columns| all | columns);
            for row in 0..self.size {
                let place = self.result.place(block, row);
                let mask = ones(self.size) << place.lane;
                let words = self.result.element.bits().div_ceil(32);
                let halves = place.register..place.register + words;
                let own = self.result.own(&c[halves.clone()], place) & mask;
                let columns = match index {
                    Some((chosen, _)) if any != 0 => chosen.of_row(row).fold(0, |all, k| all | columns[k]),
                    _ => any,
                };
                let all = if rows >> row & 1 == 1 { mask } else { columns << place.lane };
                for register in halves {
                    for half in self.result.written(place) {
                        d[register][half] = d[register][half] & !mask | (own | all) & mask;
                    }
                }
            }
        }
    }

    /// Where the two bits are that say which element of its four the one of a column of a sparse A is; the first row's lane.
    pub fn index(&self, column: usize) -> Place {
        let place = self.a.place(0, column);
        let item = (place.register * 32 + place.shift) / self.a.element.bits();
        Place { register: 0, shift: self.first_index + 2 * item, lane: place.lane }
    }

    /// Which elements of a sparse A are there, as its indices say.
    pub fn chosen(&self, index: &[u32; 64]) -> Chosen {
        let mut chosen = Chosen::new(self.columns_of_a);
        for column in 0..self.columns_of_a {
            let place = self.index(column);
            let words = &index[place.lane..place.lane + self.size];
            for (k, word) in chosen.column_mut(column).iter_mut().zip(words) {
                *k = (column / 2 * 4) as u8 + (word >> place.shift & 3) as u8;
            }
        }
        chosen
    }

    /// See [`Matrix::disordered`].
    pub fn disordered(&self, chosen: &Chosen, unwritten: Halves) -> Option<usize> {
        (0..self.columns_of_a).step_by(2).find_map(|column| {
            let unknown = self.unwritten_indices(column, unwritten);
            let row = (0..self.size).find(|row| unknown >> row & 1 == 0 && chosen.is_disordered(column, *row))?;
            Some(self.index(column).lane + row)
        })
    }

    /// The rows whose index of a column of A nobody wrote.
    pub fn unwritten_indices(&self, column: usize, unwritten: Halves) -> u64 {
        let place = self.index(column);
        unwritten[place.shift / 16] >> place.lane & ones(self.size)
    }

    /// See [`Matrix::sources`].
    pub fn sources(&self, register: usize, lane: usize) -> Vec<(Operand, usize, usize)> {
        let mut sources = Vec::new();
        let words = self.result.element.bits().div_ceil(32);
        for block in 0..self.blocks {
            for row in 0..self.size {
                let place = self.result.place(block, row);
                let inside = (place.lane..place.lane + self.size).contains(&lane);
                if !inside || !(place.register..place.register + words).contains(&register) {
                    continue;
                }
                let column = lane - place.lane;
                for k in 0..self.columns_of_a {
                    self.a.sources(Operand::A, block, k, row, &mut sources);
                    if self.columns_of_a < self.depth {
                        sources.push((Operand::Index, 0, self.index(k).lane + row));
                    }
                }
                (0..self.depth).for_each(|k| self.b.sources(Operand::B, block, k, column, &mut sources));
                sources.extend((place.register..place.register + words).map(|register| (Operand::C, register, lane)));
            }
        }
        sources
    }
}

impl Factor {
    /// A, of which so many columns are there, or B, of which so many rows are.
    fn of(matrix: &Matrix, element: Element, depth: usize, lanes: usize) -> Factor {
        let (size, blocks, bits) = (matrix.rows, matrix.blocks, element.bits());
        let run = match matrix.unit {
            Unit::Copies => depth,
            Unit::Mfma => size * depth * blocks / 64,
            Unit::Pairs => size * depth / 32,
        };
        let chunk = match matrix.unit {
            Unit::Copies => run,
            // Of gfx950's instructions of any format a lane has 16 k of 8 bits, and 16 further ones behind those of all lanes; of those with
            // a sparse A that are larger than gfx942's the same, by bytes of B.
            Unit::Mfma if matrix.is_open() && bits == 8 => run / 2,
            Unit::Mfma if matrix.sparse && size * matrix.depth * bits == 64 * 256 => run / 2,
            Unit::Mfma => run,
            // Two registers of k, then those of the other lanes; four of B where A is sparse.
            Unit::Pairs if matrix.sparse && depth == matrix.depth => run.min(128 / bits),
            Unit::Pairs => run.min(64 / bits),
        };
        let registers = (run * bits).div_ceil(32);
        let (registers, folded) = if matrix.unit == Unit::Pairs { fold(registers, lanes) } else { (registers, None) };
        Factor {
            registers,
            element,
            chunk,
            stride: size * blocks,
            groups_of_k: (depth / run).max(1),
            size,
            broadcast: 0,
            chosen: 0,
            groups: [0, 1, 2, 3],
            copies: if matrix.unit == Unit::Copies { lanes / 16 } else { 1 },
            folded,
        }
    }

    /// Elements that a lane has.
    pub fn elements(&self) -> usize {
        self.registers * 32 / self.element.bits()
    }

    /// The place of the elements of `k`, of rows (or columns) 0 and on, before the exchange of lanes.
    pub fn place(&self, block: usize, k: usize) -> Place {
        let block = (block >> self.broadcast << self.broadcast) + self.chosen;
        let (group, within) = split(k, self.chunk);
        let (item, group) = split(group, self.groups_of_k);
        let bit = (item * self.chunk + within) * self.element.bits();
        let lane = block * self.size + group * self.stride;
        Place { register: bit / 32, shift: bit % 32, lane }.folded(self.folded)
    }

    /// The lane that is read for a lane.
    pub fn read(&self, lane: usize) -> usize {
        self.groups[lane / 16 % 4] * 16 + lane % 16
    }

    /// Whether all lanes are read as they lie.
    pub fn is_straight(&self) -> bool {
        self.groups == [0, 1, 2, 3]
    }

    fn poisoned(&self, registers: &[Halves], block: usize, k: usize) -> u64 {
        let place = self.place(block, k);
        let words = self.element.bits().div_ceil(32);
        let lanes = registers[place.register..place.register + words].iter().fold(0, |lanes, halves| {
            lanes
                | match (self.element.bits(), place.shift) {
                    (32.., _) => halves[0] | halves[1],
                    (_, 16..) => halves[1],
                    _ => halves[0],
                }
        });
        (0..self.size).fold(0, |rows, row| {
            let bad = (0..self.copies).any(|copy| lanes >> self.read(place.lane + row + 16 * copy) & 1 == 1);
            rows | u64::from(bad) << row
        })
    }

    fn sources(
        &self,
        operand: Operand,
        block: usize,
        k: usize,
        row: usize,
        sources: &mut Vec<(Operand, usize, usize)>,
    ) {
        let place = self.place(block, k);
        let words = self.element.bits().div_ceil(32);
        for register in place.register..place.register + words {
            sources.extend((0..self.copies).map(|copy| (operand, register, self.read(place.lane + row + 16 * copy))));
        }
    }
}

impl Results {
    /// The place of a row, of columns 0 and on.
    pub fn place(&self, block: usize, row: usize) -> Place {
        let (stripe, within) = split(row, self.height);
        let (above, beside) = split(stripe, self.stripes);
        let slot = block * self.span + above * self.height + within;
        let lane = (split(block, self.beside).1 + beside * self.beside) * self.size;
        let register = match (self.element, self.packed) {
            (Element::F64, _) => 2 * slot,
            (_, true) => slot / 2,
            (_, false) => slot,
        };
        let upper = self.high || self.packed && slot % 2 == 1;
        Place { register, shift: if upper { 16 } else { 0 }, lane }.folded(self.folded)
    }

    /// Lanes of which the bits that C is read from are poisoned.
    fn own(&self, registers: &[Halves], place: Place) -> u64 {
        registers.iter().fold(0, |lanes, halves| self.written(place).fold(lanes, |lanes, half| lanes | halves[half]))
    }

    /// The halves that are read of C and written of D.
    fn written(&self, place: Place) -> std::ops::Range<usize> {
        match (self.element.bits(), place.shift) {
            (16, 0) => 0..1,
            (16, _) => 1..2,
            _ => 0..2,
        }
    }
}

impl Place {
    fn folded(self, at: Option<usize>) -> Place {
        match at {
            Some(half) if self.register >= half => {
                Place { register: self.register - half, lane: self.lane + 32, ..self }
            }
            _ => self,
        }
    }
}

/// Quotient and remainder by a power of two.
#[inline]
pub(super) fn split(value: usize, by: usize) -> (usize, usize) {
    (value >> by.trailing_zeros(), value & (by - 1))
}

/// Registers of what has so many in a wave of 32 lanes, and which of those are in other lanes. One register stays as it is.
fn fold(registers: usize, lanes: usize) -> (usize, Option<usize>) {
    if lanes == 64 && registers > 1 { (registers / 2, Some(registers / 2)) } else { (registers, None) }
}

fn ones(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
