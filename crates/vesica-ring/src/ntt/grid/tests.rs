use super::*;
use crate::ntt::tests::words;
use vesica_cpu::Backend;

const N: usize = 64;
const PRIMES: [u64; 2] = [1125889168998401, 1125874136383489];

/// Sums by definition: one product after another.
fn expected(basis: &Basis, pairs: &[[Vec<u64>; 2]], row: &[Vec<u64>]) -> [Vec<u64>; 2] {
    let sum = |side: usize| {
        let mut sum = vec![0; row[0].len()];
        for (pair, polynomial) in pairs.iter().zip(row) {
            let mut product = pair[side].clone();
            basis.mul(&mut product, polynomial);
            basis.add(&mut sum, &product);
        }
        sum
    };
    [sum(0), sum(1)]
}

/// Heights that fill the last group of rows to every degree, over one prime and over two.
#[test]
fn products_are_those_of_polynomials_one_by_one() {
    for backend in Backend::available() {
        let basis = Basis::on(backend, &PRIMES, N, 1);
        for limbs in [1, 2] {
            let polynomial = |seed| -> Vec<u64> {
                (0..limbs).flat_map(|limb| words(N, PRIMES[limb], 31 * seed + limb as u64)).collect()
            };
            for (rows, columns) in [(1, 1), (2, 3), (3, 5), (4, 1), (5, 2), (8, 7), (11, 3)] {
                let lines = vec![Line::ZERO; Grid::lines(rows, columns, limbs * N)];
                let mut grid = Grid::new(rows, columns, limbs * N, lines);
                let table: Vec<Vec<Vec<u64>>> = (0..rows)
                    .map(|row| (0..columns).map(|column| polynomial((100 * row + column) as u64)).collect())
                    .collect();
                for (row, polynomials) in table.iter().enumerate() {
                    polynomials.iter().enumerate().for_each(|(column, p)| grid.set(row, column, p));
                }
                let pairs: Vec<[Vec<u64>; 2]> =
                    (0..columns as u64).map(|c| [polynomial(5000 + c), polynomial(6000 + c)]).collect();
                let borrowed: Vec<[&[u64]; 2]> = pairs.iter().map(|pair| [&pair[0][..], &pair[1]]).collect();
                let sums = grid.times(&basis, &borrowed);
                assert_eq!(sums.len(), rows);
                for (sum, row) in sums.iter().zip(&table) {
                    assert_eq!(*sum, expected(&basis, &pairs, row), "{rows} x {columns}, {limbs} primes, {backend}");
                }
            }
        }
    }
}

/// As many columns as are allowed, each word as large as can be: the sums of halves do not overflow.
#[test]
fn the_longest_sum_of_the_largest_terms() {
    let largest = vec![PRIMES[0] - 1; N];
    for backend in Backend::available() {
        let basis = Basis::on(backend, &PRIMES[..1], N, 1);
        let mut grid = Grid::new(1, TERMS, N, vec![Line::ZERO; Grid::lines(1, TERMS, N)]);
        (0..TERMS).for_each(|column| grid.set(0, column, &largest));
        let sums = grid.times(&basis, &vec![[&largest[..], &largest]; TERMS]);
        // (-1)·(-1), so many times.
        assert_eq!(sums, [[vec![TERMS as u64; N], vec![TERMS as u64; N]]], "{backend}");
    }
}
