#!/usr/bin/env python3
"""The benchmarks print the keys that docs/internals/benchmarks.md promises; a run of each as short as can be. Not a measurement; of models,
which give the same figures on every machine, also that each mechanism helps with what it is for.

Usage: keys_test.py BUILD_FOLDER
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from counts import processor_counts

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.append(str(BENCH.parent / "tests/integration"))
from python_wheels import write_wheel  # noqa: E402

UV = BENCH.parent / ".venv/bin/uv"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()


def last_line(*command):
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=300,
                         env={**os.environ, "LAMBENT_PREFIX": str(BUILD)})
    return json.loads(run.stdout.splitlines()[-1])


class KeysTest(unittest.TestCase):
    def test_invoke(self):
        result = last_line(sys.executable, "-B", str(BENCH / "invoke.py"), "--quick", "--repeats", "1", "--seconds", "0.1")
        for transport in ("uds", "http"):
            for runtime in ("native", "python"):
                row = result[transport][runtime]
                self.assertGreaterEqual(row["p50_ratio"], 0)  # so short a run may round to nothing
                for key in ("p50_added_us", "p99_added_us", "bare_p50_us", "async_ack_p50_us"):
                    self.assertGreater(row[key], 0, f"{transport} {runtime} {key}")
                self.assertEqual(set(row["rps"]), {"1", "20", "96"})
        self.assertGreater(result["worker_cpu_us_per_invocation"], 0)
        self.assertGreater(result["rps_per_worker_core"], 0)

    def test_paths(self):
        result = last_line(sys.executable, "-B", str(BENCH / "paths.py"), "--quick", "--requests", "10", "--seconds", "0.1")
        paths = result["paths"]
        self.assertLessEqual({"bare", "native", "python", "asynchronous", "http"}, set(paths))
        for name, row in paths.items():
            for clients in ("1", "20"):
                for key in ("p50_us", "rps", "cpu_us"):
                    self.assertGreater(row[clients][key], 0, f"{name} {clients} {key}")
                self.assertGreaterEqual(row[clients]["wakeups"], 0)
        if shutil.which("valgrind") is not None:
            # A front that parses nothing is far below one that does.
            self.assertLess(10 * paths["bare"]["instructions"], paths["native"]["instructions"])

    def test_peers(self):
        result = last_line(sys.executable, "-B", str(BENCH / "peers.py"), "--quick", "--only", "lambent_function,lambent_model,uvicorn")
        self.assertEqual(result["not_run"], {})
        for name, row in result["systems"].items():
            self.assertGreater(row["cold_ms"], 0)
            self.assertGreater(row["idle_mb"], 1)
            for work, by_clients in row["work"].items():
                self.assertGreater(by_clients["open"]["answered"], 0, f"{name} {work}")
                for key in ("rps", "p50_us", "p99_us", "rps_per_core"):
                    self.assertGreater(by_clients["8"][key], 0, f"{name} {work} {key}")
                self.assertGreaterEqual(by_clients["8"]["sleeps"], 0)
                self.assertEqual(by_clients["8"]["instructions"] is not None, processor_counts(), f"{name} {work}")
        self.assertEqual(set(result["ours_over_peer"]["lambent_function"]["uvicorn"]), {"echo", "mib", "cpu", "model"})
        self.assertGreater(result["systems"]["lambent_function"]["deployments_per_second"], 0)

    def test_cluster(self):
        result = last_line(sys.executable, "-B", str(BENCH / "cluster.py"), "--quick", "--repeats", "1", "--seconds", "0.1")
        for key in ("here_p50_us", "forwarded_p50_us", "here_rps", "forwarded_rps", "rps_one_node", "rps_three_nodes", "object_gbps",
                    "object_here_gbps", "rps_1", "rps_3", "object_gb_s"):
            self.assertGreater(result[key], 0, key)
        self.assertEqual(result["hop_added_us"], result["added_p50_us"])
        without_ray = (result["over_ray_serve"], result["over_ray_task"], result["ray_object_gb_s"])
        self.assertEqual(without_ray, (None, None, None))
        self.assertEqual(set(result["simulated"]), {"4", "8", "1000"})

    def test_cluster_sim(self):
        result = last_line(str(BUILD / "bin/cluster_sim_bench"), "--quick")
        rows = {(row["nodes"], row["policy"]): row for row in result["simulated"]}
        # Simulated: the same on every machine.
        for nodes in (3, 30, 300):
            self.assertLess(rows[nodes, "bounded-hash"]["cold"], rows[nodes, "random"]["cold"])
        self.assertTrue(all(row["ns"] > 0 for row in result["decisions"]))

    def test_paper_streambox_cluster(self):
        result = last_line(str(BUILD / "bin/paper_streambox_cluster_bench"), "--quick")
        self.assertEqual(set(result["systems"]), {"infless", "astraea", "infless-scaler", "stream-only", "streambox"})
        ours = result["systems"]["streambox"]["mean_goodput_per_s"]
        self.assertGreater(ours["4"], 2 * ours["1"])
        self.assertGreater(ours["8"], ours["4"])
        self.assertEqual(result["systems"]["streambox"]["ours_over_it"]["8"], 1)
        self.assertEqual(set(result["ours_by_policy"]), {"bounded-hash", "least-loaded", "two-choices", "random"})

    def test_preparation(self):
        python = BENCH.parent / ".venv/bin/python"
        # What makes kernels of models may be missing.
        has_tvm = python.exists() and subprocess.run([python, "-c", "import onnx, tvm"], capture_output=True, check=False, timeout=120).returncode == 0
        with tempfile.TemporaryDirectory() as folder:
            models = [pathlib.Path(folder) / "small.onnx"] if has_tvm else []
            for model in models:
                make = "import onnx, model_shapes, sys; onnx.save(model_shapes.SMALL['super_resolution'](), sys.argv[1])"
                subprocess.run([python, "-B", "-c", make, model], check=True, cwd=BENCH.parent / "tests/clients", timeout=120)
            result = last_line(str(python if models else sys.executable), "-B", str(BENCH / "preparation.py"), "--quick",
                               *(("--model", *map(str, models)) if models else ()))
        self.assertEqual(set(result["models"]), {model.stem for model in models})
        for row in result["models"].values():
            for part in ("read", "host"):
                self.assertGreater(row[part]["cpu_s"], 0, part)
        (row,) = result["bundles"].values()
        self.assertGreater(row["host"]["cpu_s"], 0)
        self.assertGreater(row["kernels"], 0)
        self.assertEqual(result["pipeline"]["shapes"], ["2g.20gb", "3g.40gb"])
        self.assertGreater(result["pipeline"]["profile_s"], 0)

    def test_infer(self):
        result = last_line(sys.executable, "-B", str(BENCH / "infer.py"), "--quick")
        for system in ("worker", "model_server", "worker_wide", "worker_wide_batches_slo"):
            for clients in ("1", "8", "32"):
                for key in ("rps", "p50_us", "p99_us"):
                    self.assertGreater(result["systems"][system][clients][key], 0, f"{system} {clients} {key}")
        self.assertGreater(result["over_peer"]["model_server"]["1"], 0)
        for system in ("wide_batches", "wide_batches_slo", "worker_wide_batches_slo"):
            self.assertGreater(result["batches_over_none"][system]["32"], 0)

    def test_models(self):
        result = last_line(sys.executable, "-B", str(BENCH / "models.py"), "--quick")
        worth, lru, explicit = (result["systems"][name] for name in ("worth", "lru", "explicit"))
        # Simulated: the same on every machine.
        self.assertLess(worth["loads"], lru["loads"])
        self.assertLess(worth["mean_s"], lru["mean_s"])
        self.assertLess(worth["hot_over_alone"]["mean_s"], lru["hot_over_alone"]["mean_s"])
        self.assertLess(lru["mean_s"], explicit["mean_s"])
        self.assertEqual([run["failed"] for run in (worth, lru, explicit)], [0, 0, 0])
        self.assertGreater(result["calls"], 1000)
        through_worker = result["worker"]
        if "skipped" in through_worker:
            return
        self.assertEqual((through_worker["models"], through_worker["trace"], set(through_worker["holds_mib"])), (24, None, {"1", "2", "4", "8", "16", "28"}))
        self.assertEqual(set(through_worker["systems"]), {"worth", "kept", "lru", "explicit"})
        self.assertEqual(through_worker["alone"]["calls"], through_worker["alone"]["hot"]["calls"])
        for system, run in through_worker["systems"].items():
            self.assertEqual((run["failed"], run["calls"]), (0, through_worker["calls"]), system)
            self.assertEqual(run["hot"]["calls"], through_worker["alone"]["calls"], system)
            self.assertEqual(run["loads"], sum(each["loads"] for each in run["rounds"]), system)
            self.assertGreaterEqual(run["loaded_mib"], run["loads"], system)
            self.assertGreaterEqual(run["loads"], run["hot_loads"], system)
            self.assertGreater(run["held_mib"]["most"], 0, system)
            for key in ("mean_s", "p50_s", "p99_s"):
                self.assertGreater(run["hot_over_alone"][key], 0, f"{system} {key}")
        starts = result["starts"]
        for name in ("alone", "beside", "starts", "single_start"):
            self.assertEqual(starts[name]["failed"], 0, name)
            self.assertGreater(starts[name]["calls"], 0, name)
        self.assertEqual(set(starts["beside_over_alone"]), {"mean_s", "p50_s", "p99_s"})
        self.assertGreater(starts["holds_mib"]["later_1"], 0)

    def test_simulate(self):
        result = last_line(str(BUILD / "bin" / "simulate_bench"), "--quick", "--only", "few")
        row = result["cases"]["few"]
        self.assertEqual((row["policy"], row["memory_rule"]), ("density", "move-idle"))
        self.assertEqual(row["functions"], 24)
        # About as many as were asked for, each with an outcome; at this load nobody is refused.
        self.assertGreater(row["invocations"], 100_000)
        self.assertEqual(row["rejected_share"], 0)
        for key in ("invocations_per_s", "of_the_clock", "bare_invocations_per_s", "bare_over_ours",
                    "bound_together_per_s", "bound_alone_per_s"):
            self.assertEqual(len(row[key]), 3, key)
            for figure in row[key]:
                self.assertGreater(figure, 0, key)
        self.assertGreater(row["peak_rss_mb"], 0)

    def test_journal(self):
        result = last_line(str(BUILD / "bin" / "journal_bench"), "--quick")
        self.assertIsInstance(result["journal_overhead_pct"], float)
        self.assertEqual(set(result["functions"]), {"24", "4000"})
        for row in result["functions"].values():
            for key in ("dispatch_ns", "writer_ns", "bytes_per_event"):
                self.assertGreater(row[key], 0, key)
            self.assertIsInstance(row["added_ns"], float)
            self.assertEqual(row["lost_events"], 0)

    def test_recovery(self):
        result = last_line(sys.executable, "-B", str(BENCH / "recovery.py"), "--quick")
        row = result["harms"]["crash"]
        self.assertEqual(row["error"], "Runtime.ExitError")
        for key in ("back_ms", "near_ms", "later_ms"):
            self.assertGreater(row[key], 0, key)
        self.assertEqual((row["far"]["failures"], row["far"]["processes"]), (0, 1))

    def test_kernel(self):
        result = last_line(str(BUILD / "bin" / "kernel_bench"), "--quick")
        self.assertTrue(result["emulated"])
        for key in ("noop_added_us", "matmul_added_us"):
            self.assertIsInstance(result[key], float)
        for key in ("cold_ms", "cold_load_ms", "rps"):
            self.assertGreater(result[key], 0, key)
        for key in ("host_round_us", "device_round_us", "counted_round_us", "host_over_device"):
            self.assertGreater(result["loop"][key], 0, key)
        self.assertIsNone(result["end_to_end_us"])

    def test_forward(self):
        result = last_line(str(BUILD / "bin" / "forward_bench"), "--quick")
        self.assertTrue(result["emulated"])
        self.assertEqual(set(result["calls_per_s_per_core"]), {"1", "8", "48"})
        for figure in (result["enqueue_us"], result["sync_us"], result["socket_us"], *result["calls_per_s_per_core"].values(),
                       *result["bare"].values(), *result["ring"].values()):
            self.assertGreater(figure, 0)
        for beside in ("alone", "beside", "first_come"):
            self.assertGreater(result["copies"][beside]["median_ms"], 0, beside)

    def test_transfer(self):
        result = last_line(str(BUILD / "bin" / "transfer_bench"), "--quick")
        self.assertTrue(result["emulated"])
        self.assertEqual(set(result["cold"]), {"compute_bound", "balanced", "load_bound"})
        for bound, row in result["cold"].items():
            for key in ("load_ms", "compute_ms", "whole_ms", "pipelined_ms", "over_max"):
                self.assertGreater(row[key], 0, f"{bound} {key}")
        self.assertEqual(set(result["beside"]), {"in_turn", "first_come", "batch_of_all", "blocks_of_16_kib", "not_fused"})
        for order, row in result["beside"].items():
            for key in ("alone_ms", "beside_ms", "beside_most_ms", "load_ms", "requests"):
                self.assertGreater(row[key], 0, f"{order} {key}")

    def test_objects(self):
        result = last_line(sys.executable, "-B", str(BENCH / "objects.py"), "--quick", "--rounds", "3")
        for key in ("put_us", "get_us"):
            for way in ("local_socket", "http", "in_sandbox"):
                self.assertEqual(set(result[key][way]), {str(size << 10) for size in (4, 1024, 16384)})
                for figure in result[key][way].values():
                    self.assertGreater(figure, 0, f"{key} {way}")
            self.assertIsNone(result[key]["executor"])
        self.assertGreater(result["bare"]["descriptor_us"], 0)

    def test_deploy(self):
        result = last_line(sys.executable, "-B", str(BENCH / "deploy.py"), "--quick")
        self.assertIsNone(result["with_packages"])
        cases = result["cases"]
        self.assertEqual(set(cases), {"nothing", "a_setting", "a_line", "a_line_beside_data"})
        for case in cases.values():
            self.assertGreater(case["ms"], 0)
        # Settings alone, where nothing of the code has changed; and never more than the package with them.
        self.assertLess(cases["a_setting"]["sent_bytes"], 5_000)
        self.assertLess(cases["a_line"]["sent_bytes"], result["package_bytes"] + 10_000)
        self.assertGreater(result["lambda_sent_bytes"], result["package_bytes"])
        self.assertGreater(result["bare_put_ms"], 0)

    @unittest.skipUnless(UV.exists(), "there is no uv")
    def test_deploy_with_packages(self):
        with tempfile.TemporaryDirectory() as wheels:
            os.chmod(wheels, 0o755)  # the worker reads them as another user
            write_wheel(pathlib.Path(wheels), "apple")
            result = last_line(sys.executable, "-B", str(BENCH / "deploy.py"), "--quick", "--wheels", wheels, "--packages", "apple",
                               "--uv", str(UV))["with_packages"]
        for key in ("uv_s", "deploy_s", "until_compiling_s"):
            self.assertEqual(len(result["turns"][key]), 1)
        self.assertGreater(result["uv_s"], 0)
        self.assertLess(result["until_compiling_s"], result["deploy_s"])
        self.assertGreater(result["over_uv"], 0)

    def test_stages(self):
        result = last_line(sys.executable, "-B", str(BENCH / "stages.py"), "--quick", "--repeats", "1")
        self.assertTrue(result["emulated"])
        self.assertEqual(result["notes"], [])
        for where in ("device", "slowed", "host"):
            for key in ("handover_ms", "two_copies_ms", "ratio_to_two_copies", "first_handover_ms"):
                self.assertEqual(set(result[where][key]), {"1", "16", "64"})
                for figure in result[where][key].values():
                    self.assertGreater(figure, 0, f"{where} {key}")
            self.assertGreaterEqual(result["worst_ratio"][where], result[where]["ratio_to_two_copies"]["16"])

    def test_swap(self):
        result = last_line(str(BUILD / "bin" / "swap_bench"), "--quick")
        self.assertTrue(result["emulated"])
        for key in ("out_share_of_pinned", "in_share_of_pinned", "prefetch_swap_over_stock"):
            self.assertEqual(set(result[key]), {str(size << 20) for size in (64, 256, 1024)})
            for share in result[key].values():
                self.assertGreater(share, 0, key)

    def test_working_set(self):
        result = last_line(str(BUILD / "bin" / "working_set_bench"), "--quick")
        self.assertTrue(result["emulated"])
        self.assertTrue(result["right"])
        self.assertGreater(result["launch_added_ns"], -1e6)
        for key in ("first_kernel_share", "answer_share"):
            self.assertEqual(set(result[key]), {"10", "50", "100", "hidden_written", "hidden_stored"})
            for share in result[key].values():
                self.assertGreater(share, 0, key)
        for used, share in (("10", 0.1), ("50", 0.5), ("100", 1)):
            self.assertAlmostEqual(result["bytes_in_share"][used], share, delta=0.01)
            self.assertAlmostEqual(result["aside_share"][used], 1 - share, delta=0.01)
        self.assertGreater(result["warm_functions_ratio"]["10"], 1.5)
        self.assertEqual(result["warm_functions_ratio"]["100"], 1)

    def test_paper_kaas(self):
        result = last_line(str(BUILD / "bin" / "paper_kaas_bench"), "--quick")
        self.assertTrue(result["simulated"])
        for claim in ("compute", "memory"):
            for key in ("throughput_ratio", "latency_ratio"):
                self.assertGreater(result[claim][key], 1, f"{claim} {key}")
        self.assertIn("resnet_single_ratio", result)
        self.assertIn("cfs-affinity", result["knee_replicas"])
        for one in result["inputs"]:
            self.assertEqual(set(one), {"name", "value", "source", "halved", "doubled"})
        self.assertEqual(len(result["surface"]), 4 * 5 * 3)
        self.assertIn("etask batch", result["etask_policies"])
        for claims in result["etask_policies"].values():
            self.assertGreater(claims["compute"]["ratios"]["throughput_ratio"], 0)
            self.assertLessEqual(claims["memory"]["etask"]["cold"], 1)

    def test_paper_streambox(self):
        result = last_line(str(BUILD / "bin" / "paper_streambox_bench"), "--quick")
        self.assertTrue(result["simulated"])
        systems = {"infless", "astraea", "infless-scaler", "stream-only", "streambox"}
        for baseline in systems - {"streambox"}:
            for key in ("memory_reduction_pct", "throughput_ratio", "e2e_p50_ratio"):
                self.assertIsInstance(result[baseline][key], (int, float), f"{baseline} {key}")
        for key in ("startup_ms", "first_startup_ms", "idle_memory_mb", "slo_violation_pct"):
            self.assertEqual(set(result[key]), systems)
        self.assertEqual(set(result["memory_over_stream_only"]), systems)
        self.assertEqual(result["memory_over_stream_only"]["stream-only"], 1)
        self.assertLess(result["memory_over_stream_only"]["streambox"], 1)
        self.assertGreater(result["infless"]["memory_reduction_pct"], 0)
        self.assertLess(result["startup_ms"]["streambox"], result["first_startup_ms"]["streambox"])
        self.assertEqual(set(result["ablations"]), {"pool", "store", "loading", "weights"})
        self.assertEqual(set(result["tenants"]), {"3", "6"})
        for one in result["inputs"]:
            self.assertEqual(set(one), {"name", "value", "source", "guess", "halved", "doubled", "illustrative"})
        self.assertEqual(len(result["cells"]), 9)
        # Sharing a runtime saves runtimes, and a shared pool saves activations.
        idle = result["idle_memory_mb"]
        self.assertLess(idle["streambox"], idle["stream-only"])
        self.assertLess(idle["stream-only"], idle["infless"] / 2)
        # Each mechanism takes from its own figure.
        of = {key: {name: row[figure] for name, row in result["ablations"][key].items()} for key, figure in (
            ("pool", "pool_mb"), ("store", "communication_ms"), ("loading", "loading_ms"), ("weights", "loads"))}
        pools = [of["pool"][name] for name in ("static, every variable", "static, planned", "FM", "FM + RS, 64 MiB kept", "FM + RS")]
        self.assertEqual(pools, sorted(set(pools), reverse=True))
        for name in ("infless, no other task", "stream-only", "without PA, without AM", "without AM"):
            self.assertGreater(of["store"][name], 2 * of["store"]["PA + AM"], name)
        for name in ("without RZ: blocks of 16 KiB", "without PB: pinned each time", "without BT: a block at a time",
                     "MPS, pageable", "one after the other, pageable"):
            self.assertGreater(of["loading"][name], 1.1 * of["loading"]["RZ + PB + BT"], name)
        loads = list(of["weights"].values())
        self.assertEqual(loads, sorted(set(loads), reverse=True))

    def test_paper_streambox_by_parts(self):
        result = last_line(str(BUILD / "bin" / "paper_streambox_bench"), "--quick", "--parts", "2", "--seed", "3")
        self.assertEqual(result["seed"], 3)
        for which in ("ratios", "eager_processes"):
            for metrics in result["comparison"][which].values():
                for one in metrics.values():
                    self.assertEqual(len(one["by_part"]), 2)
                    # A part without answers in time has no ratio, and one part has no interval.
                    self.assertEqual(one["half_width"] is None, None in one["by_part"])
                    self.assertIsInstance(one["mean"], (int, float))

    def test_a_part_of_an_evaluation_alone(self):
        result = last_line(str(BUILD / "bin" / "paper_mqfq_bench"), "--quick", "--seed", "3", "--only", "table3")
        self.assertEqual(len(result["table3"]["traces"]), 14)
        self.assertEqual({trace["use"] for trace in result["table3"]["traces"].values()}, {"judged"})
        self.assertNotIn("met", {goal["verdict"] for goal in result["goals"]})
        self.assertIsNone(result["surface"])

    def test_an_evaluation_on_inputs_on_which_nothing_is_chosen(self):
        result = last_line(str(BUILD / "bin" / "paper_mqfq_bench"), "--quick", "--seed", "3")
        self.assertIsNone(result["surface"]["own_best"])
        self.assertTrue(result["surface"]["points"])
        for key in ("figures", "table4", "sensitivity"):
            self.assertIsNotNone(result[key], key)

    def test_paper_fluidfaas(self):
        result = last_line(str(BUILD / "bin" / "paper_fluidfaas_bench"), "--quick")
        self.assertTrue(result["simulated"])
        self.assertIsNone(result["simulator_error_pct"])
        for load in ("light", "medium", "heavy"):
            for baseline in ("esg", "infless", "fluidfaas"):
                row = result["layouts"]["P1"][load][baseline]
                for key in ("throughput_ratio", "bound", "share_of_bound", "mig_time", "gpu_time"):
                    self.assertGreater(row[key], 0, f"{load} {baseline} {key}")
                for key in ("slo_hit_gain_pct", "p95_reduction_pct"):
                    self.assertIsInstance(row[key], (int, float), f"{load} {baseline} {key}")
                self.assertEqual(set(row["breakdown"]), {"ours", "baseline"})
        # No more than can be, and nothing that no machine can do.
        for cell in result["cells"]:
            self.assertLessEqual(cell["figures"]["throughput_per_s"], 1.05 * cell["figures"]["bound_per_s"], cell)
            self.assertEqual(cell["figures"]["impossible"], 0, cell)
        self.assertIn("throughput_ratio", result["layouts"]["P1"]["heavy"]["paper"])
        for one in result["inputs"]:
            self.assertEqual(set(one), {"name", "value", "source", "guess", "halved", "doubled", "load", "moved"})
        self.assertTrue(result["surface"])
        self.assertTrue(result["ablations"])
        self.assertTrue(result["verdicts"])

    def test_paper_mqfq(self):
        result = last_line(str(BUILD / "bin" / "paper_mqfq_bench"), "--quick")
        self.assertTrue(result["simulated"])
        # Goals, figures and what decides them are of what ships, which foresees.
        ours = result["ours"]
        self.assertIn("starts ahead", result["table3"]["geo"]["nine"][ours]["settings"])
        self.assertIn(ours, {row["system"] for row in result["figures"]["figure7"]["rows"]})
        self.assertIn(ours, result["surface"]["own_best"])
        self.assertIn(f"{ours} over best, mean, all all", [goal["goal"] for goal in result["goals"]])
        self.assertEqual(len(result["table3"]["traces"]), 9)
        for name, trace in result["table3"]["traces"].items():
            for system in ("fcfs", "batch", "naive", "uniform", "sjf-pool", "eevdf-pool", "ours"):
                self.assertGreater(trace["over_mqfq"][system]["mean"], 0, f"{name} {system}")
                self.assertEqual(trace["systems"][system]["failed"][0], 0, f"{name} {system}")
                self.assertLessEqual(trace["systems"][system]["cold_ratio"][0], 1)
        for key in ("mean_s", "p99_s", "variance", "slowdown"):
            self.assertGreater(result["table3"]["geo"]["nine"]["ours"][key]["mean"], 0, key)
        # A container for every invocation is slower than a pool of them, whatever the constants.
        self.assertGreater(result["table3"]["geo"]["nine"]["naive"]["mean_s"]["mean"], 10)
        for goal in result["goals"]:
            self.assertEqual(set(goal), {"goal", "wanted", "is", "met", "verdict", "decided_by", "moved_by"})
            self.assertTrue(not goal["met"] or not goal["moved_by"], goal)
        self.assertEqual(set(result["figures"]), {"figure4", "figure6", "figure7", "figure8", "figure9a", "figure9bc"})
        for name, figure in result["figures"].items():
            self.assertTrue(figure["rows"], name)
        self.assertEqual(len(result["table4"]["rows"]), 5)
        for point in result["surface"]["points"]:
            self.assertGreater(point["geo_mean_s"]["mean"], 0, point)
        for one in result["sensitivity"]["inputs"]:
            self.assertEqual(set(one), {"name", "value", "source", "guess", "halved", "doubled", "moved"})
        for mode in ("turns", "mps"):
            rows = {(row["threshold"], row["D"]): row for row in result["phases"][mode]["figure9"]}
            # Where kernels contend runs take longer, and less so where the utilisation is held.
            self.assertGreater(rows[None, 6]["run_over_D1"], 1)
            self.assertLess(rows[0.5, 6]["run_over_D1"], rows[None, 6]["run_over_D1"])
        by_turns, side_by_side = ({row["D"]: row for row in result["phases"][mode]["figure9"] if row["threshold"] is None} for mode in ("turns", "mps"))
        self.assertGreater(by_turns[6]["run_over_D1"], side_by_side[6]["run_over_D1"])
        for option in ("mqfq-early", "ours-early", "ours-grace", "ours-worth"):
            self.assertGreater(result["options"][option]["judged, all"]["mean"], 0)
        self.assertEqual(len([name for name in result["unseen"] if name.startswith("family ")]), 22)
        for measure in ("mean", "p99", "worst function"):
            over = {other: figures["mean"] for other, figures in result["unseen"]["all"][measure].items()}
            self.assertEqual(len(over), 17)
            # Over the best of more it is never better than over the best of fewer.
            self.assertGreaterEqual(over["best of all"], over["best"])
            self.assertGreaterEqual(over["best of all"], over["best published"])

    @unittest.skipUnless(shutil.which("valgrind"), "there is no valgrind")
    def test_dispatch_instructions(self):
        result = last_line(sys.executable, "-B", str(BENCH / "dispatch_instructions.py"), "--quick", "--bench", str(BUILD / "bin" / "dispatch_bench"))
        for name in ("shipped", "foresee_off", "mqfq-sticky"):
            self.assertGreater(result["instructions_per_invocation"][name]["24"], 100, name)
        # To foresee costs a call little.
        of = {name: result["instructions_per_invocation"][name]["24"] for name in ("shipped", "foresee_off")}
        self.assertLess(of["shipped"], 1.2 * of["foresee_off"])

    def test_paper_mqfq_worker(self):
        result = last_line(sys.executable, "-B", str(BENCH / "paper_mqfq_worker.py"), "--quick")
        self.assertEqual(result["time"], "emulated")
        self.assertEqual([row["figure"] for row in result["points"]], ["table3", "table4"])
        for row in result["points"]:
            self.assertIsNotNone(row["worker"], row.get("invalid_because"))
            for side in ("worker", "simulator"):
                for key in ("mean_s", "p50_s", "p99_s"):
                    self.assertGreater(row[side][key], 0, f"{row['system']} {side} {key}")

    def test_paper_fluidfaas_worker_batches(self):
        result = last_line(sys.executable, "-B", str(BENCH / "paper_fluidfaas_worker.py"), "--quick", "--batches", "--seconds", "2")
        self.assertEqual(result["slo_ms"], 500)
        self.assertEqual([row["offered_per_s"] for row in result["batches"]], [10, 40])
        for row in result["batches"]:
            for kind in ("single", "one_by_one", "together", "esg", "infless"):
                self.assertEqual(row[kind]["failed"], 0, f"{kind}: {row}")
                self.assertGreater(row[kind]["throughput_per_s"], 0)
        slow = result["batches"][-1]
        self.assertEqual(slow["one_by_one"]["learnt"], {})
        self.assertIn("2g.20gb", slow["together"]["learnt"])

    def test_paper_fluidfaas_worker(self):
        result = last_line(sys.executable, "-B", str(BENCH / "paper_fluidfaas_worker.py"), "--quick")
        self.assertTrue(result["emulated"])
        for key in ("start_ms", "move_ms", "copy_gb_per_s", "around_ms"):
            self.assertGreater(result["calibration"][key], 0, key)
        for row in result["rows"]:
            self.assertEqual(row["worker"]["failed"], 0, row["first_errors"])
            self.assertEqual(row["worker"]["requests"], row["simulator"]["requests"])
            for key in ("mean_ms", "p95_ms", "throughput_per_s", "makespan_s", "mig_time_s"):
                self.assertGreater(row["worker"][key], 0, key)
                self.assertGreater(row["simulator"][key], 0, key)
            self.assertEqual(set(row["simulator_error"]), set(result["simulator_error_pct"]))
        self.assertTrue("why_not" in result["torch"] or result["torch"]["rows"], result["torch"])
        for row in result["torch"].get("rows", []):
            self.assertEqual(row["failed"], 0, row["first_errors"])
            self.assertGreater(row["makespan_s"], 0)

    def test_paper_streambox_worker(self):
        result = last_line(sys.executable, "-B", str(BENCH / "paper_streambox_worker.py"), "--quick")
        self.assertTrue(result["emulated"])
        self.assertEqual([row["system"] for row in result["rows"]], ["infless", "streambox"])
        for row in result["rows"]:
            self.assertEqual(row["errors"], [])
            for half in ("worker", "model"):
                told = row[half]
                self.assertEqual(told["answered"], told["requests"], half)
                for key in ("p50_ms", "p99_ms", "mean_ms", "memory_mb", "peak_memory_mb", "idle_memory_mb", "first_ms"):
                    self.assertGreater(told[key], 0, f"{row['system']} {half} {key}")
                self.assertGreaterEqual(told["startup_ms"], 0)  # none has to wait where all is warm
            # Two networks one after the other take this long on the device alone.
            self.assertGreater(row["worker"]["p50_ms"], 24.6)
        processes, shared = (row["worker"] for row in result["rows"])
        self.assertGreater(processes["idle_memory_mb"] - shared["idle_memory_mb"], result["runtime_mib"], "a process more has a runtime more")
        self.assertGreater(result["ratios"]["infless"]["worker"]["memory_reduction_pct"], 0)
        self.assertGreater(result["ratios"]["infless"]["model"]["memory_reduction_pct"], 0)

    def test_workflow_batches(self):
        result = last_line(sys.executable, "-B", str(BENCH / "workflow_batches.py"), "--quick")
        self.assertTrue(result["emulated"])
        ways = ("one_at_a_time", "side_by_side", "batches", "batches_that_wait")
        self.assertEqual([row["offered_per_s"] for row in result["rows"]], [50, 350])
        for row in result["rows"]:
            for way in ways:
                told = row[way]
                self.assertEqual(told["answered"], told["requests"], way)
                for key in ("answered_per_s", "p50_ms", "p99_ms", "worker_cpu_us"):
                    self.assertGreater(told[key], 0, f"{way} {key}")
            for way in ways[:2]:
                self.assertEqual(row[way]["calls_a_run"], {"resnet50": 1, "alexnet": 1}, way)
        for way in ways[2:]:
            self.assertGreater(result["rows"][-1][way]["calls_a_run"]["resnet50"], 1, way)
            self.assertGreater(result["most_answered_per_s"][way], 0)
        self.assertEqual(set(result["for_each"]["run_ms"]), set(ways))

    def test_scale(self):
        result = last_line(sys.executable, "-B", str(BENCH / "scale.py"), "--quick", "--functions", "400", "--tenants", "40", "--connections", "80",
                           "--sandboxes", "8", "--devices", "4")
        for key in ("warm_p50_ratio", "warm_p99_ratio", "removals_per_s", "rss_mb_empty", "rss_mb_full", "rss_mb_peak", "rss_mb_after_restart"):
            self.assertGreater(result[key], 0, key)
        for part, keys in {"tenants": ("count", "per_s"), "functions": ("per_s", "last_tenth_over_first", "deploy_s"),
                           "sandboxes": ("live", "per_s", "cold_p50_ms"), "connections": ("answered", "open_s", "p50_ratio", "calls_per_s")}.items():
            for key in keys:
                self.assertGreater(result[part][key], 0, f"{part} {key}")
        self.assertEqual(set(result["lists"]), {"lambda", "v1", "dashboard", "lambent_ls_s", "first_page_ms"})
        for label in ("few", "many"):
            self.assertGreater(result["restart_s"][label], 0)
            self.assertGreater(result["at_rest"][label]["longest_ms"], 0)
        if shutil.which("valgrind"):
            # Of ten functions that are called, whether 390 others rest or none does.
            self.assertLess(result["instructions_per_invocation"]["ratio"], 1.5)

    def test_upgrade(self):
        result = last_line(sys.executable, "-B", str(BENCH / "upgrade.py"), "--quick", "--upgrades", "1")
        self.assertEqual((result["failures"], result["failed"]), (0, []))
        self.assertEqual(result["asynchronous"]["never_ran"], 0)
        self.assertGreater(result["asynchronous"]["sent"], 0)
        for kind in ("plain", "served", "own"):
            self.assertEqual(result["rows"][kind]["same_process_afterwards"], 1, kind)
        for kind in ("plain", "workflow", "served", "own", "shared", "kernel", "pipeline"):
            self.assertGreater(result["rows"][kind]["requests"], 0, kind)

    def test_told_to_come_again(self):
        told, = last_line(sys.executable, "-B", str(BENCH / "overload.py"), "--quick", "--only", "told")["told"]
        self.assertGreater(told["with_id"]["served"], 0)

    def test_overload(self):
        result = last_line(sys.executable, "-B", str(BENCH / "overload.py"), "--quick")
        self.assertTrue(result["emulated"])
        for label in ("light", "1x", "10x"):
            row = result["rows"][label]
            for key in ("offered_per_s", "goodput_share", "jain", "worker_cores"):
                self.assertGreater(row[key], 0, f"{label} {key}")
            for who in ("floods", "modest", "all"):
                self.assertGreater(row[who]["p50_ms"], 0, f"{label} {who}")
                self.assertGreaterEqual(row[who]["p99_ms"], row[who]["p50_ms"], f"{label} {who}")
        # Whatever the machine: ten times too much is shed, of the floods alone, and says why.
        over = result["rows"]["10x"]
        self.assertEqual(set(over["shed_codes"]), {"429"})
        self.assertEqual(result["shed_clear"], 1)
        self.assertGreater(over["shed_share"]["flood"], 0.3)
        for name in ("steady", "modest", "rare"):
            self.assertEqual(over["shed_share"][name], 0, name)
        # Nothing recovers faster than a run takes, and all recover: 60 s is what stands where one did not.
        self.assertEqual(result["recovery_s"], result["recovery"]["modest_s"])
        for who in ("modest_s", "floods_s"):
            self.assertGreaterEqual(result["recovery"][who], result["run_ms"] / 1e3, who)
            self.assertLess(result["recovery"][who], 60, who)
        for key in ("deploy_s", "restart_s", "invoke_p50_ratio_to_10", "rss_mb", "metrics_bytes"):
            self.assertGreater(result["functions_10000"][key], 0, key)
        idle = result["idle_connections_10000"]
        self.assertEqual(idle["held"], idle["count"])
        self.assertGreater(idle["rss_kb_each"], 0)
        self.assertGreater(idle["p50_ratio"], 0)

    def test_shim(self):
        result = last_line(str(BUILD / "bin/shim_bench"), "--quick")
        for key in ("forward_ns", "bare_ns", "gated_ns", "bare_gated_ns", "look_up_ns", "alloc_us", "bare_alloc_us"):
            self.assertGreater(result[key], 0, key)
        for key in ("forward_ns", "gated_ns", "alloc_us"):
            self.assertGreater(result["vmm"][key], 0, key)
        for shares in (result["calls_times_extra_over_runtime_pct"], result["vmm"]["calls_times_extra_over_runtime_pct"]):
            self.assertTrue(shares is None or "vector_add" in shares, shares)


if __name__ == "__main__":
    unittest.main()
