"""Tests of the benchmark book: `python3 -m unittest bench.tests`. With a built `vesica` they also run jobs."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree as xml
from pathlib import Path

from . import __main__ as command
from . import doubts, draw, fits, jobs, machine, markdown, network, plots, results, run, svg, tables

ROOT = Path(__file__).resolve().parent.parent
BUILT = [ROOT / "target" / kind / "vesica" for kind in ["debug", "release"]]
VESICA = next((path for path in map(Path, [os.environ.get("VESICA", ""), *BUILT]) if path.is_file()), None)

# The sum of the figures of each table.
SUMS = {
    "whitepaper": 239436.74,
    "caict": 142490,
    "secretflow-v2": 18801.4,
    "unbalanced": 91.5,
    "spu": 7102.994,
    "kctsb": 1099511731093.07,
}

# A machine.
HERE = {"cpu": "A", "family": "1", "model": "2", "sets": [], "cores": 2, "memory_gib": 8, "system": "Linux"}


def result(job: jobs.Job, wall: float = 1.5, **more) -> results.Result:
    """A result as the runner keeps it."""
    figures = {"cpu_s": 2.0, "peak_memory": 2**20, "sent": 100, "received": 50, "expected": job.common, "found": job.common}
    one = {"others_cores": 0.0, "wall_s": wall, **figures, "right": True, "phases": {"read": 0.5, "match": 1.0}, **more}
    kept = {"job": job.as_data(), "machine": HERE, "date": "2026-01-01", "network": {"asked": "LAN", "how": "loopback"}}
    return results.Result({**kept, "runs": [one]}, "file")


class Tables(unittest.TestCase):
    def test_every_cell_of_the_documents_is_there(self):
        cells = {name: tables.load(name).cells for name in tables.names()}
        counts = {name: len(of) for name, of in cells.items()}
        whole = {"whitepaper": 144, "caict": 22, "secretflow-v2": 90, "unbalanced": 4, "spu": 72, "kctsb": 100}
        self.assertEqual(counts, whole)
        # Sums over all cells: a figure that is changed by mistake is noticed.
        sums = {name: round(sum(cell.value or 0 for cell in of), 3) for name, of in cells.items()}
        self.assertEqual(sums, SUMS)

    def test_no_figure_stands_twice(self):
        for name in tables.names():
            seen = [dataclasses.replace(cell, value=None, printed=None) for cell in tables.load(name).cells]
            self.assertEqual(len(seen), len(set(seen)), name)

    def test_what_is_run_for_a_cell_has_its_size_and_network(self):
        table = tables.load("caict")
        cell = next(cell for cell in table.cells if cell.phase == "online" and cell.network == "LAN")
        job = jobs.of_cell(table, cell)
        self.assertEqual((job.kind, job.rows, job.common, job.network), ("service", (10**8, 10**5), 50_000, None))
        scaled = jobs.of_cell(table, cell, 0.001)
        self.assertEqual((scaled.rows, scaled.common), ((10**5, 100), 50))
        three = next(cell for cell in table.cells if cell.l)
        self.assertEqual(jobs.of_cell(table, three).rows, (10**9, 10**9, 10**6))

    def test_a_cell_without_a_size_is_no_job(self):
        table = tables.load("kctsb")
        cell = next(cell for cell in table.cells if cell.n is None)
        self.assertIsNone(jobs.of_cell(table, cell))


class Jobs(unittest.TestCase):
    def test_no_two_jobs_have_one_name(self):
        wanted = {job for entry in tables.house() for job in jobs.of_house(entry)}
        for name in tables.names():
            table = tables.load(name)
            wanted |= {job for cell in table.cells if (job := jobs.of_cell(table, cell))}
        wanted |= {job.peer for job in wanted if job.peer}
        self.assertEqual(len({job.slug for job in wanted}), len({dataclasses.replace(job, common=0) for job in wanted}))
        for job in wanted:
            self.assertEqual(jobs.of_data(json.loads(json.dumps(job.as_data()))), job)

    def test_networks(self):
        self.assertEqual(jobs.rate_and_delay("100Mbps/10ms"), (100, 10))
        self.assertEqual(jobs.rate_and_delay("10Mbps"), (10, 0))
        with self.assertRaisesRegex(ValueError, "fast"):
            jobs.rate_and_delay("fast")


class Networks(unittest.TestCase):
    """Which network is made: of the real kinds, with those that a machine lacks broken."""

    def made(self, name: str | None, lacks: dict[str, str], ways: tuple[str, ...] = ("namespaces", "relay")):
        def enter(one):
            for part, why in lacks.items():
                if part in one.how:
                    raise RuntimeError(f"tc: {why}")
            return one

        kinds = [network.Namespaces, network.Delayed, network.Relay]
        with contextlib.ExitStack() as patches:
            for kind in kinds:
                patches.enter_context(unittest.mock.patch.object(kind, "__enter__", enter))
                patches.enter_context(unittest.mock.patch.object(kind, "__exit__", lambda *_: None))
            network.SAID.clear()
            said = patches.enter_context(contextlib.redirect_stderr(io.StringIO()))
            return network.make(name, ["alice", "bob"], ways).how, said.getvalue()

    def test_the_best_way_that_the_machine_allows_is_taken_and_the_rest_is_said(self):
        none, all_ = {}, {"namespaces": "not permitted"}
        self.assertEqual(self.made(None, all_), ("loopback", ""))
        self.assertEqual(self.made("100Mbps/10ms", none), ("network namespaces, tc tbf and netem", ""))
        self.assertEqual(self.made("100Mbps", {"netem": "unknown"}), ("network namespaces, tc tbf", ""))
        how, said = self.made("100Mbps/10ms", {"netem": "Specified qdisc kind is unknown"})
        self.assertEqual(how, "network namespaces, tc tbf; delay by cargo xtask shaped")
        self.assertIn("netem: tc: Specified qdisc kind is unknown", said)
        self.assertEqual(self.made("100Mbps/10ms", all_)[0], "cargo xtask shaped")
        self.assertEqual(self.made("100Mbps", all_)[0], "cargo xtask shaped")
        self.assertEqual(self.made("100Mbps/10ms", none, ("relay",))[0], "cargo xtask shaped")

    def test_a_way_that_was_asked_for_and_is_not_there_is_an_error_with_its_reasons(self):
        with self.assertRaisesRegex(RuntimeError, "100Mbps/10ms.*netem: tc: not permitted.*shaped: tc: not permitted"):
            self.made("100Mbps/10ms", {"namespaces": "not permitted"}, ("namespaces",))


class Fits(unittest.TestCase):
    def test_powers_and_lines_are_found(self):
        root = [(n, 3 * n**0.5) for n in [100, 1000, 10000, 100000]]
        self.assertAlmostEqual(fits.power(root).exponent, 0.5)
        self.assertAlmostEqual(fits.power(root).factor, 3)
        self.assertEqual(fits.exponent(root), "n^0.50, 1.00×")
        line = fits.line([(n, 0.25 * n + 40) for n in [100, 1000, 10000]])
        self.assertAlmostEqual(line.slope, 0.25)
        self.assertAlmostEqual(line.start, 40)
        # A point that is off is told, and a curve that is far off is none.
        self.assertAlmostEqual(fits.off(fits.Line(1, 0), [(10, 10), (10, 5), (10, 30)]), 3)
        self.assertEqual(fits.off(fits.Line(1, -20), [(10, 10)]), float("inf"))
        self.assertRegex(fits.exponent([(100, 1), (1000, 1), (10000, 9)]), "^none: n.* misses by")
        self.assertRegex(fits.straight([(100, 1), (1000, 9), (10000, 1)], str), "^none: ")

    def test_two_sizes_make_no_fit(self):
        two = [(100, 1.0), (1000, 10.0), (1000, 11.0)]
        self.assertIsNone(fits.power(two))
        self.assertIsNone(fits.line(two))
        self.assertEqual(fits.exponent(two[:2]), "none: 2 of 3 sizes")
        self.assertEqual((fits.exponent([]), fits.straight([], str)), ("", ""))


class Results(unittest.TestCase):
    def test_kept_results_are_small_right_and_tell_nothing_of_whose_machine_it_was(self):
        for file in results.FOLDER.glob("*.json"):
            text = file.read_text(encoding="utf-8")
            self.assertLess(len(text), 40_000, file.name)
            self.assertNotRegex(text, r'sha256:|"/|\.toml', file.name)
        for one in results.load():
            self.assertEqual(one.file, results.path(one.job, one.data["machine"]).name)
            for run_ in one.runs:
                if "dp" not in one.job.protocol:
                    self.assertEqual((run_["found"], run_["right"]), (run_["expected"], True), one.file)

    def test_figures_without_a_report_say_where_they_are_from(self):
        for entry in results.noted()["entries"]:
            for field in ["name", "title", "date", "machine", "source", "columns", "rows"]:
                self.assertTrue(entry[field], entry["name"])
            self.assertIn(entry["machine"], results.noted()["machines"], entry["name"])
            self.assertRegex(entry["source"], r"\b[0-9a-f]{8}\b", entry["name"])
            self.assertTrue(all(len(cells) == len(entry["columns"]) for cells in entry["rows"]), entry["name"])

    def test_one_that_is_kept_is_read_back(self):
        job = jobs.Job("job", "rr22", (10, 20), 5, network="100Mbps/10ms")
        with tempfile.TemporaryDirectory() as folder:
            data = {"date": "2026-01-01", "version": "1", "network": {}, "runs": [{"wall_s": 2}, {"wall_s": 4}], "reports": [{}]}
            results.keep(job, HERE, data, Path(folder))
            (one,) = results.load(Path(folder))
            self.assertEqual((one.job, one.median("wall_s"), one.data["machine"]), (job, 3, HERE))
            self.assertEqual(results.find([one], job), one)
            self.assertIsNone(results.find([one], dataclasses.replace(job, network=None)))

    def test_the_machine_that_measured_most_comes_first_and_a_figure_of_another_has_its_letter(self):
        there = {**HERE, "cpu": "Z"}
        table = tables.load("whitepaper")
        wanted = [jobs.of_cell(table, cell) for cell in table.cells if (cell.protocol, cell.network) == ("RR22_FAST_PSI_2PC", "LAN")]
        both, few = [next(job for job in wanted if job.rows[0] == n) for n in [10**7, 10**8]]
        with tempfile.TemporaryDirectory() as folder:
            for job, of, wall in [(both, HERE, 2.0), (dataclasses.replace(both, rows=(9, 9)), HERE, 2.0), (both, there, 1.0), (few, there, 7.0)]:
                later = "2026-01-02" if of is there else "2026-01-01"
                results.keep(job, of, {**result(job, wall).data, "machine": of, "date": later}, Path(folder))
            kept = results.load(Path(folder))
        self.assertEqual([one.letter for one in kept], ["B", "A", "B", "A"])
        self.assertEqual(results.find(kept, both).median("wall_s"), 2.0)
        self.assertEqual({one.letter for one in results.alike(kept)}, {"A"})
        # On the page of a table that the other one measured, that one comes first.
        self.assertEqual((results.most(kept, {both, few}), results.most(kept, {both})), ("B", "A"))
        self.assertEqual(results.find(kept, both, "B").median("wall_s"), 1.0)
        page = draw.published(table, kept)
        self.assertTrue("Ours: machine B." in page and "| 31 | **1** | 273 | 273 | 277 | **7** |" in page, page)
        mixed = [one for one in kept if one.letter == "A" or one.job == few]
        self.assertIn("| 31 | **2** | 273 | 273 | 277 | **7** (B) |", draw.published(table, mixed))
        told = draw.machines(kept).splitlines()
        self.assertTrue(told[0].startswith("- A: 2 cores of A") and told[1].startswith("- B: 2 cores of Z"), told)


class Drawing(unittest.TestCase):
    def test_pages_are_no_older_than_tables_and_results(self):
        stale = [str(path) for path, text in draw.everything().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        self.assertEqual(stale, [], "run `python3 -m bench draw`")

    def test_a_measured_figure_that_is_typed_is_found(self):
        self.assertEqual(draw.stray("It took 1.12 s and 210 MiB, or 13 GB/s."), ["1.12 s", "210 MiB", "13 GB/s"])
        self.assertEqual(draw.stray("2^20 rows, 3 parties, `4 s`, {{result a wall_s s}}, 2026-11-23, 100 Mbit\n```\n9 s\n```\n"), [])

    def test_a_figure_without_a_result_is_an_error(self):
        job = jobs.Job("job", "rr22", (10, 10), 5)
        self.assertEqual(draw.expand("It took {{result rr22.10x10 wall_s s}}.", [result(job)]), "It took 1.5 s.")
        with self.assertRaisesRegex(LookupError, "kkrt.10x10"):
            draw.expand("It took {{result kkrt.10x10 wall_s s}}.", [result(job)])

    def test_a_result_stands_beside_cells_of_its_size_only(self):
        table = tables.load("secretflow-v2")
        rr22 = jobs.Job("job", "rr22", (10**7, 10**7), 5 * 10**6)
        small = dataclasses.replace(rr22, rows=(100_000, 100_000), common=50_000)
        both = [result(rr22, 12.5), result(small, 0.25)]
        page, runs = draw.published(table, both), draw.listed(both)
        self.assertIn("Every figure: time, in s.", page)
        lines = [line for line in page.splitlines() if "**" in line]
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"RR22_FAST.*\| LAN \| 10\^7 \| 17 \| 17 \| 19 \| \*\*12.5\*\* \|")
        self.assertNotIn("10^5", page)
        self.assertTrue("| 10^7 | 12.5 (once) |" in runs and "10^5" not in runs, runs)

    def test_what_every_row_says_is_said_once(self):
        self.assertEqual(draw.lean(["a", "b", "c"], [[1, 2, 3], [1, 4, 3]], 2), "In every row *a* is 1.\n\n| b | c |\n|---|---|\n| 2 | 3 |\n| 4 | 3 |\n")
        self.assertEqual(draw.lean(["a", "b"], [[1, ""]]), "| a |\n|---|\n| 1 |\n")

    def test_sizes_stand_side_by_side_where_a_document_has_one_machine(self):
        kctsb = tables.load("kctsb")
        one = jobs.Job("bench", "ot", (100, 100), 50)
        page = draw.published(kctsb, [result(one, 0.004)])
        self.assertIn("| time | ms | 8.5 | **4** | 82 |  | 850 |  |", page)

    def test_sizes_stand_side_by_side_where_a_document_has_few_machines_and_nearly_all_was_run(self):
        table = tables.load("secretflow-v2")
        wanted = {job for cell in table.cells if (job := jobs.of_cell(table, cell)) and max(job.rows) < 10**9}
        both = sorted(wanted, key=lambda job: job.slug)
        page = draw.published(table, [result(job) for job in both[:-1]])
        self.assertIn("| protocol | network | 10^7: 32C64G | 16C32G | 8C16G | here | 10^8: 32C64G | 16C32G | 8C16G | here |", page)
        self.assertIn("| 100Mbps/10ms |  |  |  |  | 452 |", page)
        # Where most of it was not run, there is a line for each size.
        self.assertIn("| rows | 32C64G | 16C32G | 8C16G | here |", draw.published(table, [result(job) for job in both[:3]]))

    def test_protocols_that_ran_on_different_machines_have_tables_of_their_own(self):
        spu = tables.load("spu")
        wanted = {job for cell in spu.cells if (job := jobs.of_cell(spu, cell))}
        page = draw.published(spu, [result(job) for job in wanted])
        self.assertIn("| rows | Xeon Platinum 8369B, 4c | Xeon Platinum 8369B, 8c | Xeon Platinum 8369B, 16c | here |", page)
        self.assertIn("*machine* is Xeon Platinum 8269CY, 1 thread a party", page)

    def test_what_was_not_run_at_any_size_is_left_out(self):
        kctsb = tables.load("kctsb")
        nothing = draw.published(kctsb, [])
        self.assertEqual(re.findall(r"^## (.*)", nothing, flags=re.M), ["How these grow, computed"])
        page = draw.published(kctsb, [result(jobs.Job("bench", "ot", (100, 100), 50), 0.004)])
        self.assertIn("## 3.2 OT-PSI", page)
        self.assertTrue("| transfers |" not in page and "batch size" not in page and "Piano-PSI Scalability" not in page, page)

    def test_a_job_is_listed_once_and_not_over_a_slow_network_or_of_few_rows(self):
        fast, slow = [jobs.Job("job", "rr22", (10**5, 10**5), 50_000, network=network) for network in [None, "100Mbps/10ms"]]
        few = dataclasses.replace(fast, rows=(10, 10), common=5)
        self.assertEqual(draw.listed([result(slow), result(few)]), draw.NOTHING)
        elsewhere = dataclasses.replace(result(fast, 9.0), letter="B")
        runs = draw.listed([elsewhere, result(fast, 2.0), result(slow, 7.0)])
        self.assertEqual((runs.count("`rr22`"), "| 2 (once) |" in runs), (1, True), runs)

    def test_2_to_the_20_rows_and_the_most_are_listed(self):
        rr22 = jobs.Job("job", "rr22", (10**7,) * 2, 5 * 10**6)
        largest, own = [dataclasses.replace(rr22, rows=(n, n), common=n // 2) for n in [10**8, 1 << 20]]
        runs = draw.listed([result(job) for job in [rr22, largest, own]])
        self.assertEqual([size in runs for size in ["| 10^7 |", "| 10^8 |", "| 2^20 |"]], [False, True, True], runs)

    def test_one_process_is_listed_where_nothing_else_was_run(self):
        one = [jobs.Job("bench", protocol, (1 << 17,) * 2, 1 << 16) for protocol in ["rr22", "hash"]]
        runs = draw.listed([result(job) for job in [*one, jobs.Job("job", "rr22", (1 << 20,) * 2, 1 << 19)]])
        self.assertTrue("| `hash` | 2^17, one process |" in runs and "| `rr22` | 2^17" not in runs, runs)

    def test_a_retrieval_that_other_work_disturbed_is_not_listed(self):
        figures = {"query_ms": 1, "decode_ms": 1, "answer_ms": 1, "prepare_s": 1, "hint_bytes": 0, "up_bytes": 9, "down_bytes": 9}
        both = [jobs.Job("pir", "bfv-pir", (rows,), 0, bytes=2) for rows in [7000, 8000]]
        quiet, busy = [result(job, rows=job.rows[0], bytes=2, **figures) for job in both]
        busy.runs[0]["others_cores"] = 1.0
        told = draw.retrieval([quiet, busy])
        self.assertTrue("7,000" in told and "8,000" not in told, told)
        self.assertEqual(draw.retrieval([busy]), draw.NOTHING)

    def test_what_was_found_stands_beside_what_was_expected(self):
        wrong = result(jobs.Job("job", "dp", (10**6, 10**6), 500_000, "curve25519"), found=499_000)
        self.assertIn("500,000 were common, found 499,000.", draw.listed([wrong]))
        right = result(jobs.Job("job", "rr22", (10**6, 10**6), 500_000))
        self.assertNotIn("500,000", draw.listed([right]), "half of the rows, as the page says")

    def test_units_are_those_of_the_document(self):
        table = tables.load("caict")
        job = jobs.Job("service", "ecdh-oprf", (10**8, 10**5), 50_000, "fourq")
        one = result(job, phases={"prepare": 200.0, "fetch": 2.0, "ask": 0.75})
        told = {cell.phase: draw.here(cell, table, [one]) for cell in table.cells if jobs.of_cell(table, cell) == job}
        self.assertEqual({phase: found[0] for phase, found in told.items()}, {"offline": 202.0, "online": 0.75})
        ot = jobs.Job("bench", "ot", (100, 100), 50)
        kctsb = tables.load("kctsb")
        values = [draw.here(cell, kctsb, [result(ot, 0.004)]) for cell in kctsb.cells if cell.protocol == "OT-PSI" and cell.n == 100]
        self.assertEqual([found and round(found[0], 6) for found in values], [4.0, None, None, None, 0.15])

    def test_memory_stands_beside_whose_it_is_or_what_it_is_for(self):
        kctsb = tables.load("kctsb")

        def told(protocol: str, job: jobs.Job, **more) -> dict:
            one = result(job, **more)
            cells = [cell for cell in kctsb.cells if (cell.protocol, cell.quantity, cell.n) == (protocol, "memory", 1000)]
            return {cell.phase: (found := draw.here(cell, kctsb, [one])) and found[0] for cell in cells}

        peaks = {"alice": 9_000_000, "bob": 12_000_000}
        two = {"client": 9, "server": 12, "total": 21}
        self.assertEqual(told("OT-PSI", jobs.Job("job", "ot", (1000, 1000), 500), peaks=peaks), two)
        self.assertEqual(told("OT-PSI", jobs.Job("bench", "ot", (1000, 1000), 500)), dict.fromkeys(two))
        self.assertEqual(told("Piano-PSI", jobs.Job("service", "piano", (1000, 1000), 200), peaks=peaks), two)
        pir = {"peak_memory": 20_000_000, "up_bytes": 12_816, "keys_bytes": 0, "store_bytes": 64_000}
        job = jobs.Job("pir", "bgv-pir", (1000,), 0, bytes=2)
        self.assertEqual(told("Native PIR (BGV)", job, **pir), {"total": 20, "query": 12.816, "keys": 0, "database": 0.064})

    def test_a_step_of_the_document_is_a_step_of_the_report(self):
        kctsb = tables.load("kctsb")
        cells = {cell.phase: cell for cell in kctsb.cells if (cell.protocol, cell.n, cell.quantity) == ("OT-PSI", 100, "time")}
        kinds = {phase: jobs.of_cell(kctsb, cell).kind for phase, cell in cells.items()}
        self.assertEqual(kinds, {None: "bench", "OT setup": "job", "OT execution": "job"})
        one = result(jobs.Job("job", "ot", (100, 100), 50))
        one.data["reports"] = [{"cost": [{"step": "match", "wall_s": 9}, {"step": "base", "wall_s": 0.02}, {"step": "ot", "wall_s": 0.003}]}]
        told = {phase: (found := draw.here(cell, kctsb, [one])) and found[0] for phase, cell in cells.items()}
        self.assertEqual(told, {None: None, "OT setup": 20, "OT execution": 3})

    def test_growth_is_fitted_to_both_tables(self):
        kctsb = tables.load("kctsb")
        of = [result(jobs.Job("bench", "ot", (n, n), n // 2), wall=0.03 * (n / 100) ** 0.5) for n in [100, 1000, 10000]]
        page = draw.published(kctsb, of)
        self.assertIn("| Piano-PSI | communication | KB | 0.065 · √n | 130.77× | n^1.00, 1.19× |  |  |", page)
        self.assertRegex(page, r"\| OT-PSI \| time \| ms \|  \|  \| n\^1.00, 1.02× \| n\^0.50, 1.00× \|")
        self.assertNotIn("How these grow", draw.published(tables.load("caict"), []))

    def test_pianos_bytes_are_drawn_with_their_power(self):
        def one(rows: int) -> results.Result:
            return result(jobs.Job("pir", "piano", (rows,), 0, bytes=8), up_bytes=rows**0.5, hint_bytes=100 * rows**0.5)

        text = plots.piano([one(rows) for rows in [100, 10_000, 1_000_000]])
        self.assertIn("query: n^0.50", text)
        self.assertIn("window: n^0.50", text)
        self.assertIn("Not measured yet", plots.piano([one(100), one(10_000)]))

    def test_small_figures_have_no_exponent(self):
        figures = [0.0000344, 0.0042, 0.012, 0, 17.25, 12345]
        self.assertEqual([draw.digits(one) for one in figures], ["0.000034", "0.0042", "0.012", "0", "17.2", "12,345"])

    def test_the_readme_tells_of_secretflow_only_where_it_was_run(self):
        job = jobs.Job("job", "rr22", (1 << 20,) * 2, 1 << 19)
        self.assertNotIn("SecretFlow", draw.speed([result(job)]))
        both = draw.speed([result(job), result(job.peer, 6.0), result(dataclasses.replace(job, security="malicious"))])
        self.assertRegex(both, r"\| `rr22` \| 1.5 s, 2 s, 1 MiB \| 0.00014 \| 6 s, 2 s, 1 MiB \| 4 \|")
        self.assertIn("| `rr22`, malicious | 1.5 s, 2 s, 1 MiB | 0.00014 |  |  |", both)
        self.assertIn("by turns on the same files, without TLS", both)

    def test_work_of_others_is_told_and_kept_out_of_the_readme(self):
        twenty = result(jobs.Job("job", "rr22", (1 << 20,) * 2, 1 << 19), 0.875)
        self.assertIn("0.875 s", draw.speed([twenty]))
        twenty.runs[0]["others_cores"] = 1.0
        self.assertNotIn("0.875 s", draw.speed([twenty]))
        busy = result(jobs.Job("job", "kkrt", (10**5, 10**5), 50_000), others_cores=1.2)
        self.assertIn("(busy, once)", draw.listed([busy]))

    def test_every_noted_figure_is_on_the_page(self):
        page = (draw.PAGES / "README.md").read_text(encoding="utf-8")
        drawn = re.findall(r"\{\{noted (.*?)\}\}", page)
        self.assertEqual(sorted(drawn), sorted(entry["name"] for entry in results.noted()["entries"]))

    def test_plots_are_sound_and_names_do_not_cover_each_other(self):
        kept = [result(job) for entry in tables.house() for job in jobs.of_house(entry) if job.kind == "job"]
        for name, text in {**plots.all_of_them(kept), **plots.all_of_them([])}.items():
            xml.fromstring(text)
            self.assertNotIn("nan", text, name)
        for one in kept:
            one.runs[0]["others_cores"] = 1.0
        self.assertIn("Not measured yet", plots.all_of_them(kept)["time.svg"], "what was disturbed is not drawn")
        ends = [((0.0, 200.0 + i % 3), f"line {i}", "") for i in range(14)]
        heights = sorted(at for *_, at in svg.apart(ends, 50, 400))
        self.assertGreaterEqual(min(b - a for a, b in zip(heights, heights[1:])), 16.9)
        self.assertTrue(50 <= heights[0] and heights[-1] <= 400)

    def test_no_text_of_a_plot_is_too_small_or_leaves_the_paper(self):
        kept = [result(job) for entry in tables.house() for job in jobs.of_house(entry) if job.kind in ("job", "bench")]
        for name, text in plots.all_of_them(kept).items():
            self.assertGreaterEqual(min(int(size) for size in re.findall(r"(\d+)px", text)), 13, name)
            for node in xml.fromstring(text).iter("{http://www.w3.org/2000/svg}text"):
                # A letter of this size is some 7 units wide on average.
                wide = 7 * len(node.text) * {"end": 0, "middle": 0.5}.get(node.get("text-anchor"), 1)
                self.assertLessEqual(float(node.get("x")) + wide, svg.WIDTH + 12, f"{name}: {node.text}")

    def test_the_page_is_one_sound_file_without_links_out(self):
        html = draw.everything()[draw.BOOK / "all.html"]
        self.assertNotRegex(html, r"<script|<link|src=|@import")
        ids = set(re.findall(r'<section id="(.*?)"', html))
        self.assertTrue({target for target in re.findall(r'href="#(.*?)"', html)} <= ids)
        inner = markdown.html("| a | b |\n|---|---|\n| `x<y` | **1** |\n\n- one\n- *two*\n", {})
        xml.fromstring(f"<p>{inner}</p>")
        self.assertIn("<code>x&lt;y</code>", inner)

    def test_doubts_are_computed_from_the_tables(self):
        text = doubts.all_of_them()
        for words in ["153,600 bytes", "16,384 bytes", "| 10,000 | 850 | 6.50 |", "= 1.00: a line", "| 5970 s | 1.61 h | 1.66 h |", "= 28.0 ms", "0 of 9 cells"]:
            self.assertIn(words, text)


class Comparing(unittest.TestCase):
    def test_order_does_not_matter_and_every_row_does(self):
        with tempfile.TemporaryDirectory() as folder:
            expected, found = Path(folder) / "expected.csv", Path(folder) / "found.csv"
            expected.write_text("id\n1\n2\n3\n", encoding="utf-8")
            for rows, right in [("3,a\r\n1,b\r\n2,c\r\n", True), ("3,a\n1,b\n", False), ("3,a\n1,b\n4,c\n", False)]:
                found.write_text(f"id,c\n{rows}", encoding="utf-8")
                self.assertEqual(run.compare(expected, found)[1], right, rows)


class Choosing(unittest.TestCase):
    def ask(self, *args: str) -> list[str]:
        return [job.slug for job in run.wanted(command.parser().parse_args(["run", *args]))]

    def test_a_pattern_fits_the_name_of_a_cell_or_of_a_job(self):
        self.assertEqual(self.ask("whitepaper", "--only", "*3PC (FourQ)*32C* LAN*", "--most", "1e7"), ["ecdh-fourq.10000000x10000000x10000000"])
        self.assertEqual(self.ask("whitepaper", "--only", "kkrt.10000000x*mbps*"), ["kkrt.10000000x10000000.100mbps-10ms"])

    def test_a_pattern_that_fits_nothing_is_an_error_that_names_it(self):
        told = io.StringIO()
        with contextlib.redirect_stderr(told), tempfile.TemporaryDirectory() as folder:
            args = command.parser().parse_args(["run", "spu", "--only", "kkrt.7", "--vesica", "/bin/echo", "--data", folder])
            self.assertEqual(args.main(args), 2)
        self.assertIn("'kkrt.7'; `python3 -m bench run spu --dry` shows", told.getvalue())


@unittest.skipIf(VESICA is None, "vesica is not built: `cargo build -p vesica-cli`")
class Running(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results = Path(self.folder.name) / "results"

    def bench(self, *args: str) -> int:
        common = ["--vesica", str(VESICA), "--data", f"{self.folder.name}/data", "--results", str(self.results), "--runs", "1"]
        parsed = command.parser().parse_args(["run", *args, *common])
        return parsed.main(parsed)

    def test_jobs_are_run_kept_and_not_run_again(self):
        few = ["whitepaper", "--scale", "2e-5", "--most", "300", "--only", "*lowcomm*32C* LAN*"]
        self.assertEqual(self.bench(*few), 0)
        (one,) = results.load(self.results)
        self.assertEqual((one.job.words, one.job.rows, one.runs[0]["found"]), ("rr22 low-comm", (200, 200), 100))
        self.assertEqual({report["job"]["party"] for report in one.data["reports"]}, {"alice", "bob"})
        self.assertFalse(any((Path(self.folder.name) / "data").iterdir()), "tables are removed")
        file = self.results / one.file

        def dated(year: str, others: float) -> None:
            text = re.sub(r'"date": "\d{4}', f'"date": "{year}', file.read_text(encoding="utf-8"))
            file.write_text(re.sub(r'"others_cores": [\d.]+', f'"others_cores": {others}', text), encoding="utf-8")

        dated("1999", others=0.0)
        self.assertEqual(self.bench(*few), 0)
        self.assertIn('"date": "1999', file.read_text(encoding="utf-8"), "what is kept is not run again")
        dated("1999", others=1.5)
        self.assertEqual(self.bench(*few), 0)
        self.assertNotIn('"date": "1999', file.read_text(encoding="utf-8"), "what other work disturbed is")
        dated("1999", others=0.0)
        self.assertEqual(self.bench(*few, "--again"), 0)
        self.assertNotIn('"date": "1999', file.read_text(encoding="utf-8"))

    def test_three_parties_a_service_and_a_protocol_in_memory(self):
        self.assertEqual(self.bench("whitepaper", "--scale", "2e-5", "--most", "300", "--only", "*3PC (FourQ)*32C* LAN*"), 0)
        self.assertEqual(self.bench("caict", "--scale", "1e-5", "--most", "1e4", "--only", "*OPRF* LAN*"), 0)
        self.assertEqual(self.bench("kctsb", "--most", "100", "--only", "OT-PSI*"), 0)
        self.assertEqual(self.bench("kctsb", "--most", "100", "--only", "Piano-PSI*"), 0)
        found = {(one.job.kind, one.job.protocol): one for one in results.load(self.results)}
        # OT-PSI is a job of two processes where a step is asked for.
        kinds = {("job", "ecdh"), ("service", "ecdh-oprf"), ("bench", "ot"), ("job", "ot"), ("service", "piano")}
        self.assertEqual(set(found), kinds)
        self.assertEqual(len(found["job", "ecdh"].job.rows), 3)
        self.assertEqual(set(found["service", "ecdh-oprf"].phases()), {"prepare", "fetch", "ask"})
        self.assertGreater(found["job", "ot"].step("base"), 0)
        (piano,) = found["service", "piano"].runs
        self.assertEqual((piano["expected"], piano["found"], set(piano["peaks"])), (20, 20, {"alice", "bob"}))
        self.assertGreater(piano["sent"], 0)

    def test_totals_by_group_are_those_of_a_plain_join(self):
        self.assertEqual(self.bench("house", "--scale", "0.02", "--most", "2000", "--only", "*64-groups*"), 0)
        found = {one.job.words: one.runs[0] for one in results.load(self.results)}
        self.assertEqual(set(found), {"rr22 64 groups", "rr22 64 groups values of both"})
        # 655 keys are common, some of them in groups of fewer than five.
        self.assertEqual(len({run["found"] for run in found.values()}), 1)
        self.assertTrue(all(run["right"] and 500 < run["found"] <= 655 for run in found.values()), found)
        self.assertGreater(found["rr22 64 groups values of both"]["sent"], found["rr22 64 groups"]["sent"])

    def test_totals_by_groups_of_both_are_those_of_a_plain_join(self):
        self.assertEqual(self.bench("house", "--scale", "0.01", "--most", "1000", "--only", "*8x8-groups*"), 0)
        (one,) = results.load(self.results)
        self.assertEqual(one.job.words, "rr22 8x8 groups values of one")
        # 327 keys are common, some of them in pairs of fewer than five.
        self.assertTrue(one.runs[0]["right"] and 200 < one.runs[0]["found"] < 327, one.runs[0])

    def test_a_slow_network_is_slow_and_says_how_it_was_made(self):
        job = jobs.Job("job", "rr22", (3000, 3000), 1500, network="10Mbps/20ms")
        parsed = command.parser().parse_args(
            ["run", "house", "--vesica", str(VESICA), "--data", f"{self.folder.name}/data", "--results", str(self.results), "--runs", "1"]
        )
        run.Runner(parsed).run(job)
        (one,) = results.load(self.results)
        namespaces = ["network namespaces, tc tbf and netem", "network namespaces, tc tbf; delay by cargo xtask shaped"]
        self.assertIn(one.data["network"]["how"], [*namespaces, "cargo xtask shaped"])
        busier = max(one.runs[0]["sent"], one.runs[0]["received"])
        self.assertGreater(one.runs[0]["wall_s"], busier * 8 / 10e6)

    def test_what_fails_is_told_and_keeps_nothing(self):
        table = dataclasses.replace(jobs.Job("job", "rr22", (10, 10), 5), security="thoughtless")
        parsed = command.parser().parse_args(
            ["run", "house", "--vesica", str(VESICA), "--data", f"{self.folder.name}/data", "--results", str(self.results)]
        )
        with self.assertRaisesRegex(run.Failed, "thoughtless"):
            run.Runner(parsed).run(table)
        self.assertEqual(results.load(self.results), [])


if __name__ == "__main__":
    unittest.main()
