//! Points of FourQ by the lane: the group law, the two endomorphisms, multiplication by digits, the cofactor.
//!
//! \[CL15\] C. Costello, P. Longa, "FourQ: four-dimensional decompositions on a Q-curve over the Mersenne prime",
//! ASIACRYPT 2015, eprint 2015/565. Representations are named R1 to R4 as in its table 2. The curve is complete (section
//! 2.2: d is not a square and -1 is), so no input of the addition is exceptional.
//!
//! Multiplication is done on Ê, to which the isogeny τ leads and from which its dual leads back: there the endomorphisms
//! cost little, for \[CL15\] composes those of E of the isogenies and of these. Ê has the same equation with
//! [`TWICE_D_HAT`]. Its d is a square, so it has points at infinity, of the orders 2 and 4, and a denominator of P + Q is zero
//! where P is such a point plus Q or minus Q. What is multiplied has the odd order N, and there that cannot be.

use super::scalar::Digits;
use crate::field::p127::{Constant, Fp2};
use crate::field::{Formula, Lanes};

/// d of `-x² + y² = 1 + d·x²·y²`; \[CL15\], section 2.2.
pub(super) const D: Constant = (4_205_857_648_805_777_768_770, 125_317_048_443_780_598_345_676_279_555_970_305_165);
/// 2d.
const TWICE_D: Constant = (8_411_715_297_611_555_537_540, 80_492_913_427_091_964_959_665_255_396_056_504_603);

/// 2d̂ of Ê, `-x² + y² = 1 + d̂·x²·y²`.
const TWICE_D_HAT: Constant = (8_411_715_297_611_555_536_250, 104_026_335_419_886_198_368_014_714_570_378_988_531);

/// A point as (X : Y : Z), tight: R4.
#[derive(Clone, Copy)]
pub(super) struct Point<V> {
    pub(super) x: Fp2<V>,
    pub(super) y: Fp2<V>,
    pub(super) z: Fp2<V>,
}

/// A point as (X : Y : Z : T) with T = XY/Z as a product of two: R1. X, Y and Z are tight, `ta` below 4 u and `tb` below 2 u,
/// or both below 3 u.
#[derive(Clone, Copy)]
pub(super) struct Extended<V> {
    pub(super) x: Fp2<V>,
    pub(super) y: Fp2<V>,
    pub(super) z: Fp2<V>,
    pub(super) ta: Fp2<V>,
    pub(super) tb: Fp2<V>,
}

/// A summand as (X+Y, Y-X, 2Z, 2dT), below 2, 3, 2 and 1 u, or 3, 3, 2 and 2 u when its sign has been chosen: R2.
#[derive(Clone, Copy)]
pub(super) struct Summand<V> {
    sum: Fp2<V>,
    difference: Fp2<V>,
    z2: Fp2<V>,
    t2d: Fp2<V>,
}

/// A sum to add to as (X+Y, Y-X, Z, T), below 2, 3, 1 and 1 u: R3.
#[derive(Clone, Copy)]
struct Base<V> {
    sum: Fp2<V>,
    difference: Fp2<V>,
    z: Fp2<V>,
    t: Fp2<V>,
}

/// A product that is called, not inlined: for the code outside the main loop, which would outgrow the instruction cache.
/// The left factor is below 8 u.
struct Product<V>(Fp2<V>, Fp2<V>);

impl<V: Lanes> Formula<V> for Product<V> {
    type Out = Fp2<V>;
    #[inline(always)]
    fn run(self) -> Fp2<V> {
        self.0.left::<8>().mul(&self.1)
    }
}

/// A product, called, of `a` below j u and `b` below k u. Weight: the larger of 2(j + 8)·k and (3k + 5)·j; k < 5.
#[inline(always)]
pub(super) fn product<V: Lanes>(a: Fp2<V>, b: Fp2<V>) -> Fp2<V> {
    V::call(Product(a, b))
}

/// A square that is called, of a value below 3 u.
struct Square<V>(Fp2<V>);

impl<V: Lanes> Formula<V> for Square<V> {
    type Out = Fp2<V>;
    #[inline(always)]
    fn run(self) -> Fp2<V> {
        self.0.square::<4>()
    }
}

/// The square of a value below 3 u, called.
#[inline(always)]
pub(super) fn square<V: Lanes>(a: Fp2<V>) -> Fp2<V> {
    V::call(Square(a))
}

impl<V: Lanes> Point<V> {
    /// The same point twice: \[CL15\], section 5.2 (Hisil, Wong, Carter, Dawson; 3M + 4S).
    #[inline(always)]
    pub(super) fn double(&self) -> Extended<V> {
        let (xx, yy) = (self.x.square::<2>(), self.y.square::<2>());
        let tb = xx.add(yy); // 2 u
        let d = yy.sub::<2>(xx); // 3 u
        let ta = self.x.add(self.y).square::<3>().sub::<3>(tb); // 4 u
        let e = self.z.square::<2>().twice().sub::<4>(d).carried();
        let left = d.left::<4>();
        Extended { x: e.left::<2>().mul(&ta), y: left.mul(&tb), z: left.mul(&e), ta, tb }
    }

    /// The same point twice, called.
    #[inline(always)]
    pub(super) fn double_called(&self) -> Extended<V> {
        V::call(Double(self))
    }

    /// T = XY/Z, without the inversion: (X : Y : Z) = (XZ : YZ : Z²), and of that T is XY.
    #[inline(always)]
    pub(super) fn extend(&self) -> Extended<V> {
        let Self { x, y, z } = *self;
        Extended { x: product(z, x), y: product(z, y), z: square(z), ta: x, tb: y }
    }

    /// Reads a point of a batch.
    #[inline(always)]
    pub(super) fn load(words: &[u64]) -> Self {
        let coordinate = 6 * V::WIDTH;
        Self { x: Fp2::load(words), y: Fp2::load(&words[coordinate..]), z: Fp2::load(&words[2 * coordinate..]) }
    }

    /// Writes a point of a batch.
    #[inline(always)]
    pub(super) fn store(&self, words: &mut [u64]) {
        let coordinate = 6 * V::WIDTH;
        self.x.store(words);
        self.y.store(&mut words[coordinate..]);
        self.z.store(&mut words[2 * coordinate..]);
    }
}

impl<V: Lanes> Extended<V> {
    /// Without T.
    #[inline(always)]
    pub(super) fn point(&self) -> Point<V> {
        Point { x: self.x, y: self.y, z: self.z }
    }

    /// R1 to R3.
    #[inline(always)]
    fn base(&self) -> Base<V> {
        Base {
            sum: self.x.add(self.y),
            difference: self.y.sub::<2>(self.x),
            z: self.z,
            t: self.tb.left::<4>().mul(&self.ta),
        }
    }

    /// R1 to R2. Called products: this is not for the main loop.
    #[inline(always)]
    pub(super) fn summand(&self) -> Summand<V> {
        self.summand_of(TWICE_D)
    }

    /// The same for a point of the curve with this 2d.
    #[inline(always)]
    fn summand_of(&self, twice_d: Constant) -> Summand<V> {
        Summand {
            sum: self.x.add(self.y),
            difference: self.y.sub::<2>(self.x),
            z2: self.z.twice(),
            t2d: product(product(self.tb, self.ta), Fp2::splat(twice_d)),
        }
    }

    /// The sum of two points, called.
    #[inline(always)]
    pub(super) fn add_called(&self, other: &Summand<V>) -> Self {
        V::call(Add(&self.base(), other))
    }

    /// 392 times the point: 392 = 8·49, the cofactor. 8 doublings and 2 additions.
    #[inline(always)]
    pub(super) fn clear_cofactor(&self) -> Self {
        V::call(ClearCofactor(*self))
    }
}

impl<V: Lanes> Base<V> {
    /// The sum of two points; \[CL15\], section 5.2 (8M).
    #[inline(always)]
    fn add(&self, other: &Summand<V>) -> Extended<V> {
        let t = self.z.left::<2>().mul(&other.z2);
        let z = self.t.left::<2>().mul(&other.t2d);
        let x = self.sum.left::<3>().mul(&other.sum);
        let y = self.difference.left::<4>().mul(&other.difference);
        let low = t.sub::<2>(z).left::<5>(); // 4 u
        let high = t.add(z); // 3 u
        let tb = x.sub::<2>(y); // 3 u
        let ta = x.add(y); // 2 u
        Extended { x: low.mul(&tb), y: high.left::<4>().mul(&ta), z: low.mul(&high), ta, tb }
    }
}

struct Add<'a, V>(&'a Base<V>, &'a Summand<V>);

impl<V: Lanes> Formula<V> for Add<'_, V> {
    type Out = Extended<V>;
    #[inline(always)]
    fn run(self) -> Extended<V> {
        self.0.add(self.1)
    }
}

struct Double<'a, V>(&'a Point<V>);

impl<V: Lanes> Formula<V> for Double<'_, V> {
    type Out = Extended<V>;
    #[inline(always)]
    fn run(self) -> Extended<V> {
        self.0.double()
    }
}

struct ClearCofactor<V>(Extended<V>);

impl<V: Lanes> Formula<V> for ClearCofactor<V> {
    type Out = Extended<V>;
    #[inline(always)]
    fn run(self) -> Extended<V> {
        let this = self.0.summand();
        let mut q = self.0.point().double_called();
        // 3, 48, 49, 392.
        for doublings in [4, 3] {
            q = q.add_called(&this);
            for _ in 0..doublings {
                q = q.point().double_called();
            }
        }
        q
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Endomorphisms

/// Constants of φ, ψ and of the isogenies between E and Ê: \[CL15\], appendix A.
const C_TAU: Constant = (33_754_435_779_700_894_835_198_039_471_158_097_091, 221_360_928_884_514_619_410);
const C_TAU_DUAL: Constant =
    (99_231_301_967_130_569_661_901_792_840_482_943_028, 170_141_183_460_469_231_510_326_374_831_369_486_353);
const C_PHI: [Constant; 10] = [
    (110_680_464_442_257_309_687, 49_615_650_983_565_284_830_950_896_420_241_471_514),
    (92_233_720_368_547_758_087, 131_306_912_742_858_181_648_727_312_260_439_119_609),
    (276_701_161_105_643_274_261, 160_666_015_865_631_300_014_011_952_927_357_137_809),
    (36_893_488_147_419_103_235, 107_027_644_557_995_218_531_204_623_577_807_990_436),
    (55_340_232_221_128_654_851, 24_279_268_184_862_963_117_522_688_682_631_129_173),
    (184_467_440_737_095_516_175, 92_472_642_025_247_131_565_767_320_804_994_133_491),
    (332_041_393_326_771_929_112, 14_804_100_590_025_031_399_847_337_894_104_161_255),
    (442_721_857_769_029_238_819, 76_283_848_507_754_718_862_858_058_709_728_786_458),
    (3_135_946_492_530_623_774_960, 41_635_071_732_389_019_719_735_756_359_456_329_456),
    (39_844_967_199_212_631_493_615, 21_045_324_596_686_230_484_035_983_431_638_590_725),
];
const C_PSI: [Constant; 4] = [
    (57_123_674_603_396_429_897_431_647_433_607_300_847, 4_095_177_184_363_520_459_066),
    (4_205_857_648_805_777_768_771, 44_824_135_016_688_633_386_011_024_159_913_800_562),
    (110_680_464_442_257_309_705, 101_947_809_620_085_063_283_442_671_593_521_101_409),
    (170_141_183_460_469_231_621_006_839_273_626_796_022, 68_193_373_840_384_168_448_244_632_122_363_004_318),
];

/// The isogeny τ from E to Ê, of degree 4.
#[inline(always)]
fn tau<V: Lanes>(p: &Point<V>) -> Point<V> {
    let (xx, yy) = (square(p.x), square(p.y));
    let (sum, difference) = (xx.add(yy), xx.sub::<2>(yy)); // 2 u, 3 u
    let x = product(product(difference, p.x), p.y);
    let y = square(p.z).twice().add(difference).neg::<6>(); // -(2Z² + X² - Y²): 6 u
    Point { x: product(x, Fp2::splat(C_TAU)), y: product(y, sum), z: product(difference, sum) }
}

/// The dual of τ, from Ê to E.
#[inline(always)]
fn tau_dual<V: Lanes>(p: &Point<V>) -> Extended<V> {
    let (xx, yy) = (square(p.x), square(p.y));
    let (sum, difference) = (xx.add(yy), yy.sub::<2>(xx)); // 2 u, 3 u
    let rest = square(p.z).twice().sub::<4>(difference).carried();
    let tb = product(product(p.x, p.y), Fp2::splat(C_TAU_DUAL));
    Extended { x: product(sum, tb), y: product(difference, rest), z: product(rest, sum), ta: difference, tb }
}

/// δφδ⁻¹ on Ê.
#[inline(always)]
fn phi_hat<V: Lanes>(p: &Point<V>) -> Point<V> {
    let c = |i: usize| Fp2::splat(C_PHI[i]);
    let (zz, yz, yy) = (square(p.z), product(p.y, p.z), square(p.y));
    // f = Z·((Y² + c4·Z²)² - (c3·YZ)²)
    let (a, b) = (product(zz, c(4)).add(yy), product(yz, c(3))); // 2 u, 1 u
    let f = product(product(a.add(b), p.z), a.sub::<2>(b));
    // g = c0·((c1·YZ)² - (Y² + c2·Z²)²)
    let (a, b) = (product(yz, c(1)), product(zz, c(2)).add(yy)); // 1 u, 2 u
    let g = product(product(a.sub::<3>(b), a.add(b)), c(0));
    // h = Y·(Y⁴ + c8·Y²Z² + c9·Z⁴), k = c5·(Y⁴ + c6·Y²Z² + c7·Z⁴)
    let (y4, yz2, z4) = (square(yy), square(yz), square(zz));
    let h = product(product(yz2, c(8)).add(product(z4, c(9))).add(y4), p.y);
    let k = product(product(yz2, c(6)).add(product(z4, c(7))).add(y4), c(5));
    Point {
        x: product(product(p.x, g), h).conj().carried(),
        y: product(product(k, p.z), f).conj().carried(),
        z: product(f, h).conj().carried(),
    }
}

/// δψδ⁻¹ on Ê.
#[inline(always)]
fn psi_hat<V: Lanes>(p: &Point<V>) -> Point<V> {
    let c = |i: usize| Fp2::splat(C_PSI[i]);
    let (x, y, z) = (p.x.conj(), p.y.conj(), p.z.conj()); // 2 u
    let (zz, xx) = (square(z), square(x));
    let a = xx.add(product(zz, c(1))); // 2 u
    let b = xx.add(product(zz, c(2))); // 2 u
    let minus = xx.add(product(zz, c(3))).neg::<3>(); // 3 u
    let ay = product(a, y);
    let x = product(product(product(x, zz), minus), c(0));
    Point { x, y: product(b, ay), z: product(minus, ay) }
}

/// The table of P + [j0]φ(P) + [j1]ψ(P) + [j2]ψ(φ(P)) for the bits of j, of a point of Ê: \[CL15\], algorithm 2, steps 1 to 3.
struct Table<V>(Point<V>);

impl<V: Lanes> Formula<V> for Table<V> {
    type Out = [Summand<V>; 8];
    #[inline(always)]
    fn run(self) -> Self::Out {
        let (p, phi) = (self.0, V::call(PhiHat(self.0)));
        let mut table = [p.extend().summand_of(TWICE_D_HAT); 8];
        // The multiples that come later are the bases, to which the earlier entries are added: a base has one product
        // less than a summand.
        for (bit, image) in [phi, V::call(PsiHat(p)), V::call(PsiHat(phi))].into_iter().enumerate() {
            let base = image.extend().base();
            for j in 0..1 << bit {
                table[j + (1 << bit)] = V::call(Add(&base, &table[j])).summand_of(TWICE_D_HAT);
            }
        }
        table
    }
}

macro_rules! called {
    ($name:ident, $function:ident, $out:ident) => {
        pub(super) struct $name<V>(pub(super) Point<V>);
        impl<V: Lanes> Formula<V> for $name<V> {
            type Out = $out<V>;
            #[inline(always)]
            fn run(self) -> $out<V> {
                $function(&self.0)
            }
        }
    };
}
called!(Tau, tau, Point);
called!(TauDual, tau_dual, Extended);
called!(PhiHat, phi_hat, Point);
called!(PsiHat, psi_hat, Point);

/// φ of points, for the tests.
#[cfg(test)]
pub(super) fn phi<V: Lanes>(p: &Point<V>) -> Extended<V> {
    V::call(TauDual(V::call(PhiHat(V::call(Tau(*p))))))
}

/// ψ of points, for the tests.
#[cfg(test)]
pub(super) fn psi<V: Lanes>(p: &Point<V>) -> Extended<V> {
    V::call(TauDual(V::call(PsiHat(V::call(Tau(*p))))))
}

// ---------------------------------------------------------------------------------------------------------------------
// Multiplication

/// The entry that the masks name, with its sign. Every entry is read, whichever it is.
#[inline(always)]
fn select<V: Lanes>(table: &[Summand<V>; 8], masks: &[u64; 8]) -> Summand<V> {
    let mut entry = table[0];
    for j in 1..8 {
        let mask = V::splat(masks[j - 1]);
        entry.sum = Fp2::select(mask, table[j].sum, entry.sum);
        entry.difference = Fp2::select(mask, table[j].difference, entry.difference);
        entry.z2 = Fp2::select(mask, table[j].z2, entry.z2);
        entry.t2d = Fp2::select(mask, table[j].t2d, entry.t2d);
    }
    // -(x, y) = (-x, y).
    let minus = V::splat(masks[7]);
    Summand {
        sum: Fp2::select(minus, entry.difference, entry.sum),
        difference: Fp2::select(minus, entry.sum, entry.difference),
        z2: entry.z2,
        t2d: Fp2::select(minus, entry.t2d.neg::<2>(), entry.t2d),
    }
}

/// The sum of a point and an entry of a table.
///
/// This and the doubling are called, not inlined: together they would be a block of thousands of vector instructions,
/// which the compiler takes minutes for. Operands that pass through memory cost nothing that is scarce here.
struct AddEntry<'a, V>(&'a Extended<V>, &'a [Summand<V>; 8], &'a [u64; 8]);

impl<V: Lanes> Formula<V> for AddEntry<'_, V> {
    type Out = Point<V>;
    #[inline(always)]
    fn run(self) -> Point<V> {
        let AddEntry(q, table, masks) = self;
        q.base().add(&select(table, masks)).point()
    }
}

/// The multiple of a point of prime order that the digits name: \[CL15\], algorithm 2.
pub(super) struct Multiply<'a, V>(pub(super) Point<V>, pub(super) &'a Digits);

impl<V: Lanes> Formula<V> for Multiply<'_, V> {
    type Out = Point<V>;
    #[inline(always)]
    fn run(self) -> Point<V> {
        let Multiply(p, digits) = self;
        let table = V::call(Table(V::call(Tau(p))));
        let (first, rest) = digits.masks();
        let first = select(&table, first);
        // R2 to R4: (2X : 2Y : 2Z), below 6, 5 and 2 u.
        let mut q = Point {
            x: first.sum.sub::<4>(first.difference).carried(),
            y: first.sum.add(first.difference).carried(),
            z: first.z2.carried(),
        };
        for masks in rest {
            q = V::call(AddEntry(&q.double_called(), &table, masks));
        }
        V::call(TauDual(q)).point()
    }
}
