//! FourQ and Ê as short Weierstrass curves, and the endomorphisms of Ê there, for affine points that share their inversions.
//!
//! A twisted Edwards curve with a = -1 is birationally equivalent to `y² = x³ + (J/K)·x² + x/K²` (RFC 9380, appendix D.1, with
//! x = s/K and y = t/K), and x + J/3K makes that short.
//!
//! **Ê** is scaled besides, so that it is a curve of Hasegawa's family, `y² = x³ - 6·(5 - 3s)·x + 8·(7 - 9s)` with s in Fp·i,
//! where ψ is short (\[CL15\], section 3; B. Smith, "Families of fast elliptic curves from Q-curves", ASIACRYPT 2013): it is the
//! conjugate of the 2-isogeny with the kernel (4, 0). φ is the conjugate of a 5-isogeny.
//!
//! **No exception.** What is inverted is zero on the kernels alone, so at no point of the order N.

use super::curve::{Extended, Point, product, square};
use crate::field::Lanes;
use crate::field::p127::{Constant, Fp, Fp2};

/// A point with tight coordinates.
#[derive(Clone, Copy)]
pub(super) struct Affine<V> {
    pub(super) x: Fp2<V>,
    pub(super) y: Fp2<V>,
}

/// How a curve is made of an Edwards curve.
pub(super) struct Model {
    /// 1/K.
    k: Constant,
    /// What is added to x: that of the point of which both coordinates are 0.
    shift: Constant,
    /// The same with 1/K more, and 1/K less the same.
    above: Constant,
    below: Constant,
}

/// FourQ.
pub(super) const FOURQ: Model = Model {
    k: super::map::ONE_OVER_K,
    shift: (85_070_591_730_234_616_566_819_926_658_905_014_325, 49_243_038_650_708_305_012_893_930_545_309_068_482),
    above: (127_605_887_595_351_923_448_277_340_386_431_598_564, 145_519_664_135_115_079_225_240_338_443_229_571_486),
    below: (127_605_887_595_351_922_046_324_790_784_505_675_641, 47_033_586_833_698_469_199_452_477_352_611_434_522),
};

/// Ê with x over S², but y over S² too; see [`Affine::hat`].
const HAT: Model = Model {
    k: (36_893_488_147_419_103_232, 19_634_837_470_658_242_213_199_254_757_100_745_972),
    shift: (4, 0),
    above: (36_893_488_147_419_103_236, 19_634_837_470_658_242_213_199_254_757_100_745_972),
    below: (36_893_488_147_419_103_228, 19_634_837_470_658_242_213_199_254_757_100_745_972),
};
/// The scale S of Ê, by S² of x and by S³ of y.
const S: Constant =
    (116_461_155_527_732_024_040_415_656_242_188_497_586, 47_759_709_062_519_475_755_143_046_058_339_902_436);
/// 1/S.
const ONE_OVER_S: Constant =
    (63_261_716_719_624_862_633_273_106_384_977_710_784, 156_119_597_968_187_580_689_481_661_790_025_946_659);
/// The coefficient of x of Ê, -6·(5 - 3s).
pub(super) const A: Constant =
    (170_141_183_460_469_231_731_687_303_715_884_105_697, 18_577_722_856_818_883_617_293_735_702_121_532_804);

/// Something that is to be divided by, tight or below 3 u, as its conjugate and its norm.
type Divisor<V> = (Fp2<V>, Fp<V>);

/// What the coordinates of a point of an Edwards curve are divided by: X·(Z - Y), zero for the neutral element.
#[inline(always)]
pub(super) fn divisor<V: Lanes>(p: &Point<V>) -> Divisor<V> {
    let divisor = product(p.z.sub::<2>(p.y), p.x);
    (divisor.conj(), divisor.norm())
}

impl<V: Lanes> Affine<V> {
    /// A point of an Edwards curve, on the curve of this model; `inverse` is that of its [`divisor`].
    #[inline(always)]
    pub(super) fn of(p: &Point<V>, inverse: Fp2<V>, model: &Model) -> Self {
        // x = (Z + Y)/K(Z - Y) and y = x·Z/X.
        let scale = product(product(p.z.add(p.y), Fp2::splat(model.k)), inverse);
        Self { x: product(scale, p.x).add(Fp2::splat(model.shift)).carried(), y: product(scale, p.z) }
    }

    /// The same point on the Edwards curve: with the x that was not shifted, (x/y, (x - 1/K)/(x + 1/K)).
    #[inline(always)]
    pub(super) fn edwards(self, model: &Model) -> Extended<V> {
        let Self { x, y } = self;
        let (minus, plus) = (x.sub::<2>(Fp2::splat(model.above)), x.add(Fp2::splat(model.below))); // 3 u, 2 u
        let x = x.sub::<2>(Fp2::splat(model.shift)); // 3 u
        Extended { x: product(plus, x), y: product(minus, y), z: product(plus, y), ta: minus, tb: x }
    }

    /// A point of Ê; `inverse` is that of its [`divisor`].
    #[inline(always)]
    pub(super) fn hat(p: &Point<V>, inverse: Fp2<V>) -> Self {
        let Self { x, y } = Self::of(p, inverse, &HAT);
        Self { x, y: product(y, Fp2::splat(ONE_OVER_S)) }
    }

    /// The same point on Ê.
    #[inline(always)]
    pub(super) fn edwards_hat(self) -> Point<V> {
        Self { x: self.x, y: product(self.y, Fp2::splat(S)) }.edwards(&HAT).point()
    }

    /// What ψ divides by: x - 4.
    #[inline(always)]
    pub(super) fn divisor_of_psi(self) -> Divisor<V> {
        let divisor = Fp2 { re: self.x.re.sub::<2>(Fp::splat(4)), im: self.x.im }; // 3 u
        (divisor.conj(), divisor.norm())
    }

    /// ψ of the point, of which w is the inverse of the divisor: the conjugate of (-x/2 - e·w, y·(-1/2 + e·w²)/√-2), e = 9·(1 + s).
    #[inline(always)]
    pub(super) fn psi(self, w: Fp2<V>) -> Self {
        /// -e.
        const MINUS_E: Constant =
            (170_141_183_460_469_231_731_687_303_715_884_105_718, 160_852_322_032_059_789_923_040_435_864_823_339_325);
        let half = Fp::splat(1 << 126);
        let ew = product(w, Fp2::splat(MINUS_E));
        let x = ew.sub::<2>(self.x.scale(half)); // 3 u
        let square = product(ew, w);
        let y = product(Fp2 { re: square.re.add(half), im: square.im }, self.y);
        // The conjugate of that over -√-2, which is 2^64·i here, exchanges the two parts.
        let y = Fp2 { re: y.im, im: y.re }.scale(Fp::splat(1 << 63));
        Self { x: Fp2 { re: x.re, im: x.im.neg::<4>() }.carried(), y }
    }

    /// What φ divides by: h = z² + C, z = x + Z.
    #[inline(always)]
    pub(super) fn divisor_of_phi(self) -> Divisor<V> {
        let divisor = square(self.z()).add(Fp2::splat(C)); // 2 u
        (divisor.conj_wide(), divisor.norm())
    }

    /// The x that φ is written in, below 2 u.
    #[inline(always)]
    fn z(self) -> Fp2<V> {
        self.x.add(Fp2::splat(Z))
    }

    /// φ of the point, of which w is the inverse of the divisor: the conjugates of
    /// z/5 + c + w·(α·z + β + w·(γ·z + δ)), and of the derivative of that times κ·y.
    #[inline(always)]
    pub(super) fn phi(self, w: Fp2<V>) -> Self {
        let z = self.z();
        let inner = of(z, X_1).add(product(of(z, X_2), w)); // 3 u
        let x = z.scale(Fp::splat(FIFTH)).add(Fp2::splat(X_0)).add(product(inner, w)); // 3 u
        let third = of(z, Y_2).add(product(of(z, Y_3), w)); // 3 u
        let second = product(third, w).add(Fp2::splat(Y_1)); // 2 u
        let first = product(second, w).add(Fp2::splat(Y_0)); // 2 u
        let y = product(first, self.y);
        Self { x: Fp2 { re: x.re, im: x.im.neg::<4>() }.carried(), y: y.conj().carried() }
    }
}

/// A linear function of z, below 2 u.
#[inline(always)]
fn of<V: Lanes>(z: Fp2<V>, [factor, summand]: [Constant; 2]) -> Fp2<V> {
    product(z, Fp2::splat(factor)).add(Fp2::splat(summand))
}

/// Of φ, whose kernel polynomial is h = (x + Z)² + C: the constants of its x, with 1/5, and then those of its y. They follow from
/// h by the formulas of J. Vélu ("Isogénies entre courbes elliptiques", 1971) and partial fractions, with h' = 2z and z² = h - C:
/// Y_0 = κ/5, Y_1 = -κ·α, Y_2 = κ·(-2β·z + 2α·C - 3γ), Y_3 = κ·(-4δ·z + 4γ·C).
const Z: Constant = (0, 4_644_430_714_204_720_904_323_433_925_530_383_201);
const C: Constant =
    (170_141_183_460_469_231_731_687_303_715_884_105_725, 32_170_464_406_411_957_984_608_087_172_964_667_865);
const FIFTH: u128 = 68_056_473_384_187_692_692_674_921_486_353_642_291;
const X_0: Constant = (0, 101_155_823_933_440_594_858_147_695_444_424_386_796);
const X_1: [Constant; 2] = [
    (102_084_710_076_281_539_039_012_382_229_530_463_465, 5_709_537_094_254_100_423_450_500_832_935_665_658),
    (102_084_710_076_281_539_039_012_382_229_530_463_321, 104_438_052_275_560_962_379_847_328_146_962_711_829),
];
const X_2: [Constant; 2] = [
    (47_639_531_368_931_384_884_872_445_040_447_549_921, 55_602_804_767_498_307_405_403_559_135_880_881_919),
    (34_028_236_692_093_846_346_337_460_743_176_820_531, 58_935_573_925_472_616_920_880_185_444_122_341_889),
];
const Y_0: Constant = (0, 44_143_819_085_437_905_832_152_230_287_619_259_825);
const Y_1: Constant =
    (142_918_594_106_794_154_654_617_335_121_342_648_819, 108_655_023_194_772_365_974_196_379_786_422_602_826);
const Y_2: [Constant; 2] = [
    (102_084_710_076_281_539_039_012_382_229_530_463_321, 151_606_915_204_636_462_596_552_784_003_923_811_754),
    (163_335_536_122_050_462_462_419_811_567_248_741_992, 134_710_311_743_607_878_407_704_446_865_152_718_464),
];
const Y_3: [Constant; 2] = [
    (163_335_536_122_050_462_462_419_811_567_248_740_392, 29_156_049_885_076_104_867_481_528_026_935_671_924),
    (57_167_437_642_717_661_861_846_934_048_537_061_646, 34_373_601_401_103_120_846_435_607_796_395_890_668),
];
