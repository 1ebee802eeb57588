#!/usr/bin/python3
"""What `terrace bench gpu` concludes from its figures: search, pairing, verdicts, text. Needs no PyTorch."""
import argparse
import unittest

import bench_gpu_path  # noqa: F401
import findings
import targets
from bisection import NothingWorks, largest_passing
from lineup import AGAIN, CHECKPOINTED, DRAM, FITS, NVME, SAVING, chosen, lineup
from pairing import alternate, quantile, turns
from place import parse_place


class LargestBatch(unittest.TestCase):
    def search(self, answer, **limits):
        tried = []

        def passes(number):
            tried.append(number)
            return number <= answer

        return largest_passing(passes, **limits), tried

    def test_every_answer_is_found_exactly(self):
        for answer in range(1, 300):
            self.assertEqual(self.search(answer, highest=1 << 12)[0], (answer, answer + 1))

    def test_no_number_is_tried_twice(self):
        for answer in (1, 2, 63, 64, 65, 1000):
            tried = self.search(answer)[1]
            self.assertEqual(len(tried), len(set(tried)))

    def test_trials_grow_with_the_logarithm(self):
        self.assertLessEqual(len(self.search(100_000)[1]), 2 * 17 + 2)

    def test_gap_within_the_tolerance_ends_the_search(self):
        (good, bad), tried = self.search(1000, tolerance=0.1)
        self.assertLessEqual(good, 1000)
        self.assertGreater(bad, 1000)
        self.assertLessEqual(bad - good, 0.1 * good)
        self.assertLess(len(tried), len(self.search(1000)[1]))

    def test_highest_that_passes_has_no_failure_beside_it(self):
        self.assertEqual(self.search(10_000, lowest=3, highest=50)[0], (50, None))

    def test_nothing_works_is_said(self):
        self.assertRaises(NothingWorks, self.search, 4, lowest=5)

    def test_empty_range_is_refused(self):
        self.assertRaises(ValueError, self.search, 4, lowest=5, highest=4)


class Pairs(unittest.TestCase):
    def test_turns_alternate(self):
        self.assertEqual(turns(3), [("plain", "contender"), ("contender", "plain"), ("plain", "contender")])

    def test_drift_of_the_machine_drops_out(self):
        clock = iter(1.5**number for number in range(100))  # every turn is slower than the one before
        rounds = alternate(lambda: [next(clock)], lambda: [next(clock)], 20)
        ratios = sorted(rounds.ratios())
        self.assertAlmostEqual(ratios[0], 1 / 1.5)
        self.assertAlmostEqual(ratios[-1], 1.5)
        self.assertAlmostEqual(rounds.ratio(), (1.5 + 1 / 1.5) / 2)

    def test_ratio_is_of_neighbours(self):
        plain, contender = iter([[1.0], [10.0], [100.0]]), iter([[2.0], [20.0], [200.0]])
        rounds = alternate(lambda: next(plain), lambda: next(contender), 3)
        self.assertEqual(rounds.ratios(), [2.0, 2.0, 2.0])
        self.assertEqual((rounds.ratio(), rounds.spread()), (2.0, 0.0))

    def test_too_few_rounds_have_no_spread(self):
        self.assertIsNone(alternate(lambda: [1.0], lambda: [1.0], 2).spread())

    def test_quantile_interpolates(self):
        self.assertEqual(quantile([1.0, 2.0, 4.0], 0.75), 3.0)


class Places(unittest.TestCase):
    def test_emulated_device_is_read(self):
        place = parse_place("emulated:8G,h2d=12G,d2h=500M,latency=10us")
        self.assertFalse(place.is_cuda)
        self.assertEqual((place.capacity_bytes, place.torch_device), (8 << 30, "cpu"))
        self.assertEqual((place.to_device_bytes_per_second, place.to_host_bytes_per_second), (12 << 30, 500 << 20))
        self.assertAlmostEqual(place.latency_seconds, 1e-5)
        self.assertEqual(place.with_capacity(123), "emulated:123,h2d=12G,d2h=500M,latency=10us")
        self.assertIn("not what a GPU does", place.note)
        self.assertEqual(place.lag_seconds, 0)

    def test_a_lag_is_the_emulated_devices(self):
        place = parse_place("emulated:8G,h2d=12G").with_lag("50ms")
        self.assertEqual((place.spec, place.lag_seconds), ("emulated:8G,h2d=12G,lag=50ms", 0.05))
        self.assertEqual(place.with_capacity(1 << 30), "emulated:1073741824,h2d=12G,lag=50ms")
        self.assertIn("step times are not", place.note)
        for lagging, time in (("cuda", "50ms"), ("emulated:8G,lag=1ms", "50ms"), ("emulated:8G", "50"), ("emulated:8G", "")):
            with self.assertRaises(argparse.ArgumentTypeError, msg=lagging):
                parse_place(lagging).with_lag(time)

    def test_cuda_is_read(self):
        self.assertEqual(parse_place("cuda:3").torch_device, "cuda:3")
        self.assertIsNone(parse_place("cuda").note)

    def test_anything_else_is_refused(self):
        for text in ("", "gpu", "cuda:", "cuda:x", "emulated", "emulated:", "emulated:8G,h2d", "emulated:8G,speed=1",
                     "emulated:0", "emulated:8G,latency=10"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=text):
                parse_place(text)


def entry(name, ratio, spread, lower=0.6, same=True):
    return {"contender": name, "says": "", "ratio_to_plain": ratio, "ratio_spread": spread, "ratios": [ratio],
            "step_seconds": ratio, "plain_step_seconds": 1.0, "peak_allocated_bytes": int(1000 * (1 - lower)),
            "peak_reduction": lower, "bit_identical": same, "steps_compared": 9, "turns": {}}


def judged(**sections):
    return {item["claim"]: item for item in targets.judge(sections)}


class Verdicts(unittest.TestCase):
    def of(self, claim_begins, **sections):
        return next(item for claim, item in judged(**sections).items() if claim.startswith(claim_begins))

    def steps(self, *entries):
        return {"steps": {"network": {}, "plain": {"peak_allocated_bytes": 1000}, "entries": list(entries)}}

    def test_nothing_measured_is_never_met(self):
        self.assertEqual({item["verdict"] for item in judged().values()}, {"not measured"})

    def test_lower_peak_needs_both_halves(self):
        for ratio, lower, expected in ((1.01, 0.6, "met"), (1.10, 0.6, "missed"), (1.01, 0.5, "missed")):
            verdict = self.of("lower peak", **self.steps(entry(DRAM, ratio, 0.005, lower)))["verdict"]
            self.assertEqual(verdict, expected, (ratio, lower))

    def test_noise_is_no_verdict(self):
        noisy = self.of("at most 1% longer", **self.steps(entry(FITS, 1.0, 0.05)))
        self.assertEqual(noisy["verdict"], "within the noise")
        unsteady = self.steps(entry(AGAIN, 1.06, 0.0), entry(FITS, 1.05, 0.0))
        self.assertEqual(self.of("at most 1% longer", **unsteady)["verdict"], "within the noise")
        alone = entry(FITS, 1.0, 0.0)
        del alone["ratio_spread"]
        self.assertEqual(self.of("at most 1% longer", **self.steps(alone))["verdict"], "within the noise")

    def test_one_differing_bit_is_missed_and_named(self):
        item = self.of("losses", **self.steps(entry(DRAM, 1, 0), entry(NVME, 1, 0, same=False)))
        self.assertEqual((item["verdict"], item["why"]), ("missed", f"differ: {NVME}"))

    def test_failure_is_the_reason(self):
        item = self.of("lower peak", **self.steps({"contender": DRAM, "failure": "out of memory"}))
        self.assertEqual((item["verdict"], item["why"]), ("not measured", "out of memory"))

    def test_checkpointing_bounds_time_and_peak(self):
        for ratio, lower, expected in ((1.1, 0.7, "met"), (1.3, 0.7, "missed"), (1.1, 0.5, "missed")):
            sections = self.steps(entry("checkpoint", 1.2, 0.0, 0.6), entry(DRAM, ratio, 0.0, lower))
            self.assertEqual(self.of("not above", **sections)["verdict"], expected)

    def test_offloaded_inputs_are_held_against_checkpoints_of_that_kind(self):
        others = entry("checkpoint", 1.2, 0.0, 0.6), entry(DRAM, 1.1, 0.0, 0.7)
        for lower, expected in ((0.55, "met"), (0.5, "met"), (0.45, "missed")):
            sections = self.steps(*others, entry(SAVING, 1.2, 0.0, 0.5), entry(CHECKPOINTED, 1.3, 0.0, lower))
            self.assertEqual(self.of("with checkpointing", **sections)["verdict"], expected)
        self.assertEqual(self.of("with checkpointing", **self.steps(*others))["verdict"], "not measured")

    def test_slow_copies_are_missed(self):
        ways = {way: {"share": share} for way, share in (("to_host", 0.95), ("to_device", 0.90), ("both", 0.89))}
        verdicts = [item["verdict"] for item in targets.of_copies({"ways": ways})]
        self.assertEqual(verdicts, ["met", "met", "missed"])

    def test_heap_is_judged_by_its_worst_size(self):
        section = {"nanoseconds": {"terrace": {"512": 10, "mixed": 30}, "pytorch": {"512": 20, "mixed": 20}}}
        item = self.of("heap calls", heap=section)
        self.assertEqual(item["verdict"], "missed")
        self.assertIn("mixed", item["measured"])

    def test_replay_says_that_a_gpu_is_needed(self):
        self.assertEqual(self.of("heap calls", heap={"replay": {}})["why"], "needs a GPU")


class Lineup(unittest.TestCase):
    def test_names_are_chosen_by_their_beginning(self):
        everyone = lineup(parse_place("emulated:8G"), 1 << 30, "/var/tmp", 1 << 30)
        self.assertEqual([contender.name for contender in chosen(everyone, ["terrace d", "stre"])],
                         ["streams", DRAM, NVME])
        self.assertEqual([contender.name for contender in chosen(everyone, [DRAM])], [DRAM])
        self.assertRaises(ValueError, chosen, everyone, ["nobody"])

    def test_most_goes_to_the_drive(self):
        nvme = next(c for c in lineup(parse_place("cuda"), 1 << 40, "/pool", 8 << 30) if c.name == NVME)
        self.assertEqual((nvme.settings["budget"], nvme.settings["tiers"]), (2 << 30, ("dram", "nvme")))


class Text(unittest.TestCase):
    def document(self, **sections):
        place = parse_place("emulated:8G,h2d=12G,d2h=12G")
        document = {"device": {"kind": "emulated", "name": "the emulated device", "spec": place.spec,
                               "note": place.note}} | sections
        return document | {"targets": targets.judge(document), "context": list(targets.CONTEXT),
                           "machine": {"cpu": "a processor", "cores": 2}, "threads": 1, "torch": "1.13"}

    def test_heading_says_what_emulated_figures_are(self):
        head = findings.text(self.document()).split("\n")[:2]
        self.assertIn("emulated:8G,h2d=12G,d2h=12G", head[0])
        self.assertIn("not what a GPU does", head[1])

    def test_rows_failures_and_verdicts_are_shown(self):
        failing = {"contender": FITS, "says": "", "failure": "out of memory", "out_of_memory": True}
        steps = {"network": {"kind": "blocks"}, "plain": {"peak_allocated_bytes": 1000},
                 "entries": [entry(DRAM, 1.5, 0.01) | {"handed_back": 7}, failing]}
        text = findings.text(self.document(steps=steps))
        self.assertIn("1.500", text)
        self.assertRegex(text, r"terrace dram .* 7 +yes")
        self.assertIn(f"{FITS}: out of memory", text)
        self.assertIn("missed            lower peak", text)
        self.assertNotIn("drive", text.split("published elsewhere")[0])  # was not asked for


if __name__ == "__main__":
    unittest.main()
