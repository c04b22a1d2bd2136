// Writes seal.txt: what Microsoft SEAL 4.4.3 (https://github.com/microsoft/SEAL) makes of BFV, BGV and CKKS on one circuit, for the
// test in ../../src/rlwe/oracle.rs. Build it against SEAL and run it without arguments: seal > seal.txt. The keys and the noise are fresh
// on every run, so the numbers differ, and the test passes all the same.
//
// The ring is too small to be secure: what is compared is arithmetic, and a small file is a small file.
//
// Every line is a name and numbers. Ciphertexts are in coefficient form, all of one prime and then all of the next.

#include <algorithm>
#include <cstdio>
#include <random>
#include <seal/seal.h>
#include <string>
#include <vector>

using namespace seal;
using Words = std::vector<std::uint64_t>;

const std::size_t N = 128;
const std::uint64_t T = 65537;
// The first primes of the preset of seed 004, and one for switching keys.
const std::vector<Modulus> PRIMES = { 1125889168998401, 1125874136383489, 1125818300956673 };

void line(const std::string &name, const Words &words) {
    std::printf("%s", name.c_str());
    for (auto word : words) std::printf(" %llx", static_cast<unsigned long long>(word));
    std::printf("\n");
}

Words part(const Ciphertext &c, std::size_t i, std::size_t limbs) { return Words(c.data(i), c.data(i) + limbs * N); }

void ciphertext(const std::string &name, Evaluator &evaluator, Ciphertext c) {
    if (c.is_ntt_form()) evaluator.transform_from_ntt_inplace(c);
    line(name + ".b", part(c, 0, c.coeff_modulus_size()));
    line(name + ".a", part(c, 1, c.coeff_modulus_size()));
}

// The secret, in coefficient form modulo the first prime.
void secret(const SEALContext &context, const SecretKey &key) {
    Words words(key.data().data(), key.data().data() + N);
    util::inverse_ntt_negacyclic_harvey(words.data(), context.key_context_data()->small_ntt_tables()[0]);
    line("secret", words);
}

Words padded(const Plaintext &plain) {
    Words words(N, 0);
    std::copy_n(plain.data(), std::min(N, plain.coeff_count()), words.begin());
    return words;
}

EncryptionParameters parameters(scheme_type scheme) {
    EncryptionParameters p(scheme);
    p.set_poly_modulus_degree(N);
    p.set_coeff_modulus(PRIMES);
    if (scheme != scheme_type::ckks) p.set_plain_modulus(T);
    return p;
}

// x·p + y·w, as an answer is computed, and a rotation.
void exact(const std::string &name, scheme_type scheme) {
    SEALContext context(parameters(scheme), true, sec_level_type::none);
    KeyGenerator keygen(context);
    SecretKey key = keygen.secret_key();
    GaloisKeys rotations;
    keygen.create_galois_keys(std::vector<std::uint32_t>{ 3 }, rotations);
    Encryptor encryptor(context, key);
    Evaluator evaluator(context);
    Decryptor decryptor(context, key);
    BatchEncoder encoder(context);
    std::mt19937_64 random(2026);
    auto slots = [&] {
        Words words(N);
        for (auto &word : words) word = random() % T;
        return words;
    };
    std::printf("scheme %s\n", name.c_str());
    secret(context, key);
    Plaintext plain[4];
    Words held[4];
    for (int i = 0; i < 4; i++) held[i] = slots(), encoder.encode(held[i], plain[i]);
    Ciphertext x, y, product, sum, turned;
    encryptor.encrypt_symmetric(plain[0], x);
    encryptor.encrypt_symmetric(plain[1], y);
    ciphertext("x", evaluator, x);
    ciphertext("y", evaluator, y);
    line("x.slots", held[0]);
    line("x.plain", padded(plain[0]));
    line("p", padded(plain[2]));
    line("w", padded(plain[3]));
    evaluator.multiply_plain(x, plain[2], sum);
    evaluator.multiply_plain(y, plain[3], product);
    evaluator.add_inplace(sum, product);
    ciphertext("sum", evaluator, sum);
    Plaintext out;
    decryptor.decrypt(sum, out);
    line("sum.plain", padded(out));
    evaluator.apply_galois(x, 3, rotations, turned);
    decryptor.decrypt(turned, out);
    line("turned.plain", padded(out));
}

// x·p + y·w and a division by the last prime.
void approximate() {
    SEALContext context(parameters(scheme_type::ckks), true, sec_level_type::none);
    KeyGenerator keygen(context);
    SecretKey key = keygen.secret_key();
    Encryptor encryptor(context, key);
    Evaluator evaluator(context);
    CKKSEncoder encoder(context);
    std::mt19937_64 random(2027);
    const double scale = 1099511627776.0; // 2^40
    std::printf("scheme ckks\n");
    secret(context, key);
    Plaintext plain[4];
    std::vector<double> held[4];
    for (int i = 0; i < 4; i++) {
        for (std::size_t j = 0; j < N / 2; j++) held[i].push_back(static_cast<double>(random() % 2000001) / 1000.0 - 1000.0);
        encoder.encode(held[i], scale, plain[i]);
        Words bits(N / 2);
        for (std::size_t j = 0; j < N / 2; j++) std::memcpy(&bits[j], &held[i][j], 8);
        line(std::string("slots") + std::to_string(i), bits);
    }
    Ciphertext x, y, product, sum;
    encryptor.encrypt_symmetric(plain[0], x);
    encryptor.encrypt_symmetric(plain[1], y);
    ciphertext("x", evaluator, x);
    ciphertext("y", evaluator, y);
    for (int i = 2; i < 4; i++) {
        Words words(plain[i].data(), plain[i].data() + N);
        util::inverse_ntt_negacyclic_harvey(words.data(), context.key_context_data()->small_ntt_tables()[0]);
        line(i == 2 ? "p" : "w", words);
    }
    evaluator.multiply_plain(x, plain[2], sum);
    evaluator.multiply_plain(y, plain[3], product);
    evaluator.add_inplace(sum, product);
    ciphertext("sum", evaluator, sum);
    evaluator.rescale_to_next_inplace(sum);
    ciphertext("rescaled", evaluator, sum);
}

int main() {
    exact("bfv", scheme_type::bfv);
    exact("bgv", scheme_type::bgv);
    approximate();
}
