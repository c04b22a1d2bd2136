/* A plugin of qemu: the trace of what a program does between two marks, for `xtask/src/traces.rs`.
 *
 * The marks are instructions that do nothing (`hint #112` and `hint #113`; crates/vesica-secrets/src/backend/mod.rs has them). Between them
 * every instruction's place and every address of memory goes into a sum that depends on their order. At the end OUT has one line with the
 * number of instructions and that sum, and a line for each division that was executed, as these take longer for some numbers.
 *
 *   qemu-aarch64 -plugin trace.so,out=FILE[,record=FILE,names=FILE] PROGRAM …
 *
 * `record` gets the trace itself, a word of 64 bits each (addresses have the highest bit set), and `names` the function of each place.
 *
 * Debian's qemu-user comes without the header qemu-plugin.h, so what is used of it is declared here: version 1, of qemu 4.2 to 8. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* A division in the program. */
struct division {
    uint64_t executed;
    const char *function;
    struct division *next;
};

static int on;
static uint64_t executed, sum;
static struct division *divisions;
static FILE *out, *record, *names;

static void add(uint64_t word) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
    if (record) fwrite(&word, sizeof word, 1, record);
}

static void begins(unsigned cpu, void *none) { on = 1; }
static void ends(unsigned cpu, void *none) { on = 0; }

static void executes(unsigned cpu, void *place) {
    if (!on) return;
    executed++;
    add((uint64_t)place);
}

static void touches(unsigned cpu, uint32_t how, uint64_t address, void *none) {
    if (on) add(address | UINT64_C(1) << 63);
}

static void divides(unsigned cpu, void *division) {
    if (on) ((struct division *)division)->executed++;
}

/* udiv and sdiv; fdiv and fsqrt, of one number and of vectors. */
static int is_division(uint32_t word) {
    return (word & 0x7fe0f800) == 0x1ac00800 || (word & 0xff20fc00) == 0x1e201800 || (word & 0xff3ffc00) == 0x1e21c000 ||
           (word & 0xbfa0fc00) == 0x2e20fc00 || (word & 0xbfbffc00) == 0x2ea1f800;
}

static const char *function(const struct qemu_plugin_insn *insn) {
    const char *name = qemu_plugin_insn_symbol(insn);
    return name && *name ? name : "?";
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t place = qemu_plugin_insn_vaddr(insn);
        uint32_t word;
        memcpy(&word, qemu_plugin_insn_data(insn), sizeof word);
        if (word == 0xd5032e1f || word == 0xd5032e3f) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, word == 0xd5032e1f ? begins : ends, NO_REGISTERS, NULL);
            continue;
        }
        qemu_plugin_register_vcpu_insn_exec_cb(insn, executes, NO_REGISTERS, (void *)place);
        qemu_plugin_register_vcpu_mem_cb(insn, touches, NO_REGISTERS, READS_AND_WRITES, NULL);
        if (is_division(word)) {
            struct division *division = calloc(1, sizeof *division);
            if (!division) abort();
            division->function = function(insn);
            division->next = divisions;
            divisions = division;
            qemu_plugin_register_vcpu_insn_exec_cb(insn, divides, NO_REGISTERS, division);
        }
        if (names) fprintf(names, "%" PRIu64 " %s\n", place, function(insn));
    }
}

static void at_exit(qemu_plugin_id_t id, void *none) {
    fprintf(out, "%" PRIu64 " %016" PRIx64 "\n", executed, sum);
    for (struct division *division = divisions; division; division = division->next)
        if (division->executed) fprintf(out, "%" PRIu64 " divisions in %s\n", division->executed, division->function);
    fclose(out);
    if (record) fclose(record);
    if (names) fclose(names);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value++) return -1;
        FILE *file = fopen(value, "w");
        if (!file) return -1;
        if (!strncmp(argv[i], "out=", 4)) out = file;
        if (!strncmp(argv[i], "record=", 7)) record = file;
        if (!strncmp(argv[i], "names=", 6)) names = file;
    }
    if (!out) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
