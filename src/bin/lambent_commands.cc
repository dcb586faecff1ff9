#include "bin/lambent_commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>

#include "bin/flag_checks.h"
#include "bin/installation.h"
#include "bin/lambent_completion.h"
#include "bin/lambent_paths.h"
#include "bin/usage.h"
#include "bundle/builder.h"
#include "cli/calibrate.h"
#include "cli/deploy.h"
#include "cli/devices.h"
#include "cli/init.h"
#include "cli/invoke.h"
#include "cli/listing.h"
#include "cli/load.h"
#include "cli/logs.h"
#include "cli/objects.h"
#include "cli/plan.h"
#include "cli/profile.h"
#include "cli/remove.h"
#include "cli/replay.h"
#include "cli/report.h"
#include "cli/why.h"

#ifndef LAMBENT_VERSION
#define LAMBENT_VERSION "0.0.0"
#endif

namespace lambent::bin {
namespace {

using cli::Console;
using cli::Transport;

// What all verbs share, and the one that was chosen.
struct Shell {
  CLI::App app{
      "Lambent: functions on GPUs.\n\n"
      "  lambent serve &           a worker on this machine\n"
      "  lambent init hello        a function to begin with, in the folder hello\n"
      "  lambent deploy hello\n"
      "  lambent invoke hello",
      "lambent"};
  std::string endpoint = default_endpoint();
  Console console{std::cout, std::cerr, false, isatty(STDERR_FILENO) != 0};
  // Runs the chosen verb; the endpoint is parsed already.
  std::function<int(Transport&, const http::Endpoint&)> verb;
};

CLI::App* add_verb(Shell& shell, const char* name, const char* what, const std::string& example) {
  CLI::App* verb = shell.app.add_subcommand(name, what);
  verb->footer("Example:\n  " + example);
  verb->add_flag("--json", shell.console.json, "results as JSON");
  verb->add_option("--endpoint", shell.endpoint,
                   "the worker: http://HOST:PORT or unix:PATH (or LAMBENT_ENDPOINT)");
  return verb;
}

// By the program that lies beside this one.
Result<void> build_bundle(const std::string& source, const std::string& folder) {
  ASSIGN_OR_RETURN(const Installation installation, find_installation());
  bundle::BuildRequest request;
  request.source = source;
  request.output_folder = folder;
  request.include_folder = installation.prefix + "/share/lambent/include";
  request.worker_program = installation.program("lambent-bundle");
  ASSIGN_OR_RETURN(const bundle::BuildOutcome outcome, bundle::build_bundle(request));
  return {};
}

void add_deploy(Shell& shell) {
  auto options = std::make_shared<cli::DeployOptions>();
  // It takes seconds: whoever waits is told for what.
  options->build_bundle = [&shell](const std::string& source, const std::string& folder) {
    if (!shell.console.json) shell.console.err << "compiling " << source << "\n";
    return build_bundle(source, folder);
  };
  CLI::App* verb = add_verb(shell, "deploy", "create or update a function from its lambent.toml",
                            "lambent deploy build/release/examples/01_python_vector_add");
  verb->add_option("PATH", options->path, "a folder with lambent.toml, or such a file");
  verb->add_option("--name", options->name, "instead of the manifest's name");
  verb->add_option("--code", options->code, "a folder or .zip instead of the manifest's code");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const http::Endpoint&) {
      return cli::run_deploy(transport, shell.console, *options);
    };
  });
}

void add_init(Shell& shell) {
  auto options = std::make_shared<cli::InitOptions>();
  options->templates = find_shared("init");
  CLI::App* verb = add_verb(shell, "init", "write the folder of a small function, to begin with",
                            "lambent init hello --runtime cuda");
  verb->add_option("NAME", options->folder, "the new folder, and the function's name")
      ->capture_default_str();
  verb->add_option("--runtime", options->kind,
                   "python, cuda (Python with a kernel of its own), native (C++), kernel (a graph "
                   "of kernels) or workflow (two functions put together)")
      ->capture_default_str();
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport&, const http::Endpoint&) {
      return cli::run_init(shell.console, *options);
    };
  });
}

void add_invoke(Shell& shell) {
  auto options = std::make_shared<cli::InvokeOptions>();
  auto timeout_s = std::make_shared<double>(7200);
  CLI::App* verb =
      add_verb(shell, "invoke", "run a function; its answer on stdout, its phases on stderr",
               "lambent invoke hello -d '{\"name\": \"world\"}'");
  verb->add_option("NAME", options->name, "the function")->required();
  auto* data = verb->add_option("-d,--data", options->payload, "the event, JSON (default {})");
  verb->add_option("--file", options->file, "the event from a file; - is stdin")->excludes(data);
  verb->add_flag("--raw", options->raw, "the event is bytes, not JSON");
  verb->add_option("--content-type", options->content_type, "what the event is");
  verb->add_flag("--async", options->asynchronous, "queue it durably and print its id");
  verb->add_flag("--log", options->log, "also show the last 4 KB that the function printed");
  verb->add_option("--output", options->output, "write the answer to this file");
  verb->add_option("--timeout", *timeout_s, "seconds to wait for the answer")
      ->check(within(0.001, 1e6));
  verb->callback([&shell, options, timeout_s] {
    options->timeout = from_seconds(*timeout_s);
    shell.verb = [&shell, options](Transport& transport, const http::Endpoint&) {
      return cli::run_invoke(transport, shell.console, *options);
    };
  });
}

void add_result(Shell& shell) {
  auto options = std::make_shared<cli::ResultOptions>();
  CLI::App* verb = add_verb(shell, "result", "fetch what an asynchronous invocation answered",
                            "lambent result 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a --wait");
  verb->add_option("ID", options->id, "as 'lambent invoke --async' printed it")->required();
  verb->add_flag("--wait", options->wait, "until it is done");
  verb->add_option("--output", options->output, "write the answer to this file");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const http::Endpoint&) {
      return cli::run_result(transport, shell.console, *options);
    };
  });
}

// With --journal it is another program's (lambent.cc).
void add_why(Shell& shell) {
  auto invocation = std::make_shared<std::string>();
  auto journal = std::make_shared<std::string>();
  CLI::App* verb = add_verb(
      shell, "why",
      "where an invocation's time went, and what it waited for: of pipelines and workflows from "
      "the worker, which remembers the last of them; of all others from its journal",
      "lambent why 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a --journal /var/lib/lambent/journal");
  verb->add_option("INVOCATION", *invocation, "its id, as 'lambent invoke' prints it")->required();
  verb->add_option("--journal", *journal, "the journal's folder, or one segment of it");
  verb->callback([&shell, invocation, journal] {
    shell.verb = [&shell, invocation, journal](Transport& transport, const http::Endpoint&) {
      if (!journal->empty()) {
        return cli::fail(shell.console,
                         {ErrorCode::kInvalidArgument,
                          "a journal is read without a worker, by another program: give no option "
                          "before the verb (lambent why INVOCATION --journal FOLDER)"});
      }
      return cli::run_why(transport, shell.console, *invocation);
    };
  });
}

void add_listing(Shell& shell) {
  add_verb(shell, "ls", "list the functions", "lambent ls --json")->callback([&shell] {
    shell.verb = [&shell](Transport& transport, const http::Endpoint&) {
      return cli::run_ls(transport, shell.console);
    };
  });
  add_verb(shell, "ps", "list the sandboxes", "lambent ps")->callback([&shell] {
    shell.verb = [&shell](Transport& transport, const http::Endpoint&) {
      return cli::run_ps(transport, shell.console);
    };
  });
  add_verb(shell, "version", "the versions of this program and of the worker", "lambent version")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const http::Endpoint&) {
          return cli::run_version(transport, shell.console, LAMBENT_VERSION);
        };
      });
}

void add_devices(Shell& shell) {
  add_verb(shell, "devices", "list the GPUs, how they are and why they get no work",
           "lambent devices")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const http::Endpoint&) {
          return cli::run_devices(transport, shell.console);
        };
      });
  const auto add_change = [&shell](const char* name, const char* what, const char* example) {
    auto options = std::make_shared<cli::DrainOptions>();
    CLI::App* verb = add_verb(shell, name, what, example);
    verb->add_option(
            "GPU", options->gpu,
            "as 'lambent devices' shows it, or how its UUID begins; a GPU that is cut: all "
            "of its instances")
        ->required();
    verb->callback([&shell, options] {
      shell.verb = [&shell, options](Transport& transport, const http::Endpoint&) {
        return cli::run_drain(transport, shell.console, *options);
      };
    });
    return std::pair(verb, options);
  };
  const auto [drain, why] =
      add_change("drain",
                 "give a GPU no more work: invocations that run there end, what is idle is "
                 "stopped, and jobs of pipelines that run there begin again elsewhere",
                 "lambent drain 0 --reason 'new firmware'");
  drain->add_option("--reason", why->reason, "shown wherever devices are listed");
  add_change("undrain", "give a GPU work again: it is well, whatever was known against it",
             "lambent undrain 0")
      .second->drain = false;
}

void add_logs(Shell& shell) {
  auto options = std::make_shared<cli::LogsOptions>();
  CLI::App* verb = add_verb(shell, "logs", "what a function printed", "lambent logs -f hello");
  verb->add_option("NAME", options->name, "the function")->required();
  verb->add_flag("-f,--follow", options->follow, "go on as more comes");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const http::Endpoint&) {
      return cli::run_logs(transport, shell.console, *options);
    };
  });
}

void add_rm(Shell& shell) {
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = add_verb(shell, "rm", "remove functions", "lambent rm hello");
  verb->add_option("NAME", *names, "the functions")->required();
  verb->callback([&shell, names] {
    shell.verb = [&shell, names](Transport& transport, const http::Endpoint&) {
      return cli::run_rm(transport, shell.console, *names);
    };
  });
}

void add_objects(Shell& shell) {
  CLI::App* objects = shell.app.add_subcommand("objects", "put, get, list and remove objects");
  objects->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, const char* example) {
    CLI::App* verb = objects->add_subcommand(name, what);
    verb->footer(std::string("Example:\n  ") + example);
    verb->add_flag("--json", shell.console.json, "results as JSON");
    verb->add_option("--endpoint", shell.endpoint,
                     "the worker: http://HOST:PORT or unix:PATH (or LAMBENT_ENDPOINT)");
    return verb;
  };
  auto put = std::make_shared<cli::PutObjectOptions>();
  CLI::App* verb = add("put", "store a file as an object; its id on stdout",
                       "lambent objects put x.raw --datatype FP32 --shape 512,512");
  verb->add_option("FILE", put->file, "its bytes; - is stdin")->required();
  verb->add_option("--datatype", put->datatype, "FP32, INT64, ... (default BYTES)");
  verb->add_option("--shape", put->shape, "such as 512,512");
  verb->add_option("--ttl", put->time_to_live_s, "seconds that it lives (default: an hour)");
  verb->add_option("--id", put->id, "under this name");
  verb->callback([&shell, put] {
    shell.verb = [&shell, put](Transport& transport, const http::Endpoint&) {
      return cli::run_objects_put(transport, shell.console, *put);
    };
  });
  auto get = std::make_shared<cli::GetObjectOptions>();
  verb = add("get", "the bytes of an object on stdout, its type on stderr",
             "lambent objects get 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a.0 --wait 30 -o y.raw");
  verb->add_option("ID", get->id, "the object")->required();
  verb->add_option("--wait", get->wait_s, "seconds to wait for one that is still being made")
      ->check(within(0.0, to_seconds(limits::kMostObjectWait)));
  verb->add_option("-o,--output", get->output, "write the bytes to this file");
  verb->callback([&shell, get] {
    shell.verb = [&shell, get](Transport& transport, const http::Endpoint&) {
      return cli::run_objects_get(transport, shell.console, *get);
    };
  });
  add("ls", "list the objects", "lambent objects ls")->callback([&shell] {
    shell.verb = [&shell](Transport& transport, const http::Endpoint&) {
      return cli::run_objects_ls(transport, shell.console);
    };
  });
  auto ids = std::make_shared<std::vector<std::string>>();
  verb = add("rm", "remove objects", "lambent objects rm 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a.0");
  verb->add_option("ID", *ids, "the objects")->required();
  verb->callback([&shell, ids] {
    shell.verb = [&shell, ids](Transport& transport, const http::Endpoint&) {
      return cli::run_objects_rm(transport, shell.console, *ids);
    };
  });
}

void add_replay(Shell& shell) {
  struct Flags {
    cli::ReplayOptions options;
    double start_s = 0;
    double duration_s = 0;
    std::string spread = "uniform";
    bool no_overhead = false;
  };
  auto flags = std::make_shared<Flags>();
  cli::ReplayOptions& options = flags->options;
  options.catalogue = find_shared("catalogue/mqfq_table1.csv");
  options.paper_function = find_example("06_paper_function");
  CLI::App* verb =
      add_verb(shell, "replay", "send a trace at its own times and tell what came of it",
               "lambent replay t7.csv --deploy --time-scale 10 --duration 120 --out mqfq.jsonl");
  verb->add_option("TRACE", options.trace,
                   "t_ms,function rows, Azure minute counts or Azure 2021; plain or .gz. Without "
                   "one, a workload is generated from --seed");
  verb->add_option("--functions", options.catalogue, "the catalogue: what functions take");
  verb->add_option("--time-scale", options.time_scale,
                   "modelled seconds per real second, as the worker's device has it");
  verb->add_option("--duration", flags->duration_s, "seconds of the trace's window (0: to its end)")
      ->check(within(0.0, 1e9));
  verb->add_option("--start", flags->start_s, "seconds into the trace where the window begins")
      ->check(within(0.0, 1e9));
  verb->add_option("--rate-scale", options.read.rate_scale,
                   "the trace runs this many times as fast")
      ->check(within(1e-6, 1e9));
  verb->add_option("--spread", flags->spread, "where arrivals lie in a minute of counts")
      ->check(CLI::IsMember({"uniform", "equidistant", "poisson"}));
  verb->add_option("--busiest", options.read.busiest, "only the N busiest functions");
  verb->add_option("--only", options.read.only, "only these functions")->delimiter(',');
  verb->add_option("--seed", options.read.seed, "of spreading, drawing and generating");
  verb->add_flag("--resample", options.resamples,
                 "draw each function's arrivals anew, by --seed, from the gaps that it has in the "
                 "trace");
  verb->add_option("--load", options.load, "offered load of a generated workload")
      ->check(within(1e-6, 1e6));
  verb->add_flag("--skip-bad-rows", options.read.skip_bad_rows, "instead of refusing the trace");
  verb->add_option("--out", options.out, "write a result file for 'lambent report'");
  verb->add_option("--label", options.label, "name of the run (default: the worker's policy)");
  verb->add_flag("--deploy", options.deploy, "deploy a paper function for each function first");
  verb->add_option("--paper-function", options.paper_function, "the folder of its package");
  verb->add_flag("--cpu-variants", options.cpu_variants,
                 "deploy them with a CPU variant, as slow as the catalogue says");
  verb->add_option("--prefix", options.prefix, "of the names of the deployed functions");
  verb->add_option("--give-up", options.give_up_s,
                   "modelled seconds to wait for answers after the last arrival")
      ->check(within(0.0, 1e6));
  verb->add_option("--outstanding", options.most_outstanding,
                   "invocations that may wait at once; those beyond are counted, not sent")
      ->check(CLI::Range(size_t{1}, limits::kReplayOutstanding));
  verb->add_flag("--no-overhead", flags->no_overhead,
                 "do not measure the overhead first; the result is then not checked by it");
  verb->callback([&shell, flags] {
    cli::ReplayOptions& chosen = flags->options;
    chosen.read.start = from_seconds(flags->start_s);
    chosen.read.length = from_seconds(flags->duration_s);
    chosen.read.spreading = *workload::spreading_from_name(flags->spread);
    chosen.measure_overhead = !flags->no_overhead;
    shell.verb = [&shell, flags](Transport& transport, const http::Endpoint& endpoint) {
      return cli::run_replay(transport, endpoint, shell.console, flags->options);
    };
  });
}

void add_load(Shell& shell) {
  auto options = std::make_shared<cli::LoadOptions>();
  auto offline = std::make_shared<bool>(false);
  CLI::App* verb = add_verb(shell, "load", "how much functions give, and how long answers take",
                            "lambent load matmul --clients 8 --online --seconds 30");
  verb->add_option("FUNCTION", options->functions, "client i calls function i, modulo their number")
      ->required();
  verb->add_option("--clients", options->clients, "that ask at once")
      ->check(CLI::Range(1u, static_cast<unsigned>(limits::kReplayOutstanding)));
  verb->add_option("--outstanding", options->outstanding,
                   "offline: requests that each client has under way")
      ->check(CLI::Range(1u, static_cast<unsigned>(limits::kReplayOutstanding)));
  auto* offline_flag =
      verb->add_flag("--offline", *offline, "as fast as answers come, and nothing else (default)");
  auto* online_flag =
      verb->add_flag("--online", options->online,
                     "then also at random times (Poisson), at a share of what that gave")
          ->excludes(offline_flag);
  verb->add_option("--rate-of-peak", options->rate_of_peak, "online: that share")
      ->needs(online_flag)
      ->check(within(0.001, 10.0));
  verb->add_option("--rate", options->rate, "online: requests a second; no peak is measured first")
      ->check(within(0.001, 1e6))
      ->excludes(offline_flag);
  verb->add_option("--seconds", options->seconds, "that are counted, of each run")
      ->check(within(0.1, 86400.0));
  verb->add_option("--warm-up", options->warm_up_seconds,
                   "seconds before them (default: a tenth as many)")
      ->check(within(0.0, 86400.0));
  verb->add_option("--most-outstanding", options->most_outstanding,
                   "online: requests that may wait at once; those beyond are counted, not sent")
      ->check(CLI::Range(size_t{1}, limits::kReplayOutstanding));
  verb->add_option("--give-up", options->give_up_seconds,
                   "seconds to wait for answers after the last request")
      ->check(within(0.0, 86400.0));
  auto* data = verb->add_option("-d,--data", options->payload, "the event (default {})");
  verb->add_option("--payload", options->payload_file, "the event from a file; - is stdin")
      ->excludes(data);
  verb->add_option("--content-type", options->content_type, "what the event is");
  verb->add_option("--seed", options->seed, "of the times and of whose turn it is");
  verb->add_option("--csv", options->csv, "write the distributions of latencies to this file");
  verb->callback([&shell, options] {
    if (options->rate) options->online = true;
    if (size_t{options->clients} * options->outstanding > limits::kReplayOutstanding) {
      throw CLI::ValidationError("--clients times --outstanding",
                                 "at most " + std::to_string(limits::kReplayOutstanding));
    }
    shell.verb = [&shell, options](Transport& transport, const http::Endpoint& endpoint) {
      return cli::run_load_verb(transport, endpoint, shell.console, *options);
    };
  });
}

void add_calibrate(Shell& shell) {
  auto options = std::make_shared<cli::CalibrateOptions>();
  options->paper_function = find_example("06_paper_function");
  CLI::App* verb =
      add_verb(shell, "calibrate", "measure a worker's node for 'lambent simulate --profile'",
               "lambent calibrate -o node.toml");
  verb->add_option("-o,--output", options->output, "the profile to write");
  verb->add_option("--repeats", options->repeats, "of each measurement; its median counts")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--paper-function", options->paper_function, "the folder of its package");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const http::Endpoint& endpoint) {
      return cli::run_calibrate(transport, endpoint, shell.console, *options);
    };
  });
}

void add_report(Shell& shell) {
  auto options = std::make_shared<cli::ReportOptions>();
  CLI::App* verb =
      add_verb(shell, "report", "one HTML page (and a table) from the result files of runs",
               "lambent report fcfs.jsonl mqfq.jsonl -o report.html");
  verb->add_option("FILE", options->files, "result files of 'lambent replay --out'")->required();
  verb->add_option("-o,--output", options->output, "the page to write");
  verb->add_option("--title", options->title, "of the page");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport&, const http::Endpoint&) {
      return cli::run_report(shell.console, *options);
    };
  });
}

void add_profile(Shell& shell) {
  auto options = std::make_shared<cli::ProfileOptions>();
  CLI::App* verb = add_verb(shell, "profile",
                            "measure a pipeline function on a slice of each shape that is free",
                            "lambent profile app --file event.json --repeat 20 --out profile.json");
  verb->add_option("NAME", options->name, "the function")->required();
  auto* data = verb->add_option("-d,--data", options->event, "the event, JSON (default {})");
  verb->add_option("--file", options->file, "the event from a file; - is stdin")->excludes(data);
  verb->add_option("--repeat", options->repeat, "runs on each shape, after a first one")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  verb->add_option("--out", options->output, "write profile.json to this file");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const http::Endpoint&) {
      return cli::run_profile(transport, shell.console, *options);
    };
  });
}

void add_plan(Shell& shell) {
  struct Flags {
    cli::PlanOptions options;
    double handover_ms = 0;
  };
  auto flags = std::make_shared<Flags>();
  cli::PlanOptions& options = flags->options;
  CLI::App* verb = add_verb(
      shell, "plan", "how a pipeline function would be cut and placed on free slices, and why",
      "lambent plan --pipeline app/pipeline.json --profile profile.json --slices "
      "4g.40gb,2g.20gb,1g.10gb");
  auto* name = verb->add_option("FUNCTION", options.function, "of the worker");
  verb->add_option("--pipeline", options.pipeline,
                   "without a worker: its pipeline.json, or the folder with it or its lambent.toml")
      ->excludes(name);
  verb->add_option("--profile", options.profile,
                   "its profile.json; without one all components count as equally long");
  verb->add_option("--slices", options.slices,
                   "that are free on each GPU, such as 4g.40gb,3*1g.10gb (default: the worker's)");
  verb->add_option("--family", options.family, "of the devices that these are slices of")
      ->check(CLI::IsMember({"a100-40gb", "a100-80gb", "h100-80gb", "h200"}))
      ->capture_default_str();
  verb->add_option("--gpus", options.gpus, "so many with these slices, of one node")
      ->check(CLI::Range(1u, 64u));
  verb->add_option("--memory", options.memory,
                   "what the manifest declares (8G): needed where nothing was measured");
  verb->add_option("--rank", options.rank, "instead of what pipeline.json says (default: balance)")
      ->check(CLI::IsMember({"balance", "throughput"}));
  verb->add_option("--copies-gb-s", options.costs.copies_gb_per_s,
                   "of a copy between device and host")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  verb->add_option("--load-gb-s", options.costs.load_gb_per_s, "of weights onto a device")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  verb->add_option("--handover-ms", flags->handover_ms, "of a hand-over beside its copies")
      ->check(within(0.0, 1e6));
  verb->add_option("--most", options.most_shown, "ways to cut it that are shown (default 20)");
  verb->callback([&shell, flags] {
    if (flags->options.function.empty() == flags->options.pipeline.empty()) {
      throw CLI::RequiredError("FUNCTION or --pipeline");
    }
    flags->options.costs.handover = from_seconds(flags->handover_ms / 1e3);
    shell.verb = [&shell, flags](Transport& transport, const http::Endpoint&) {
      return cli::run_plan(transport, shell.console, flags->options);
    };
  });
}

void add_completion(Shell& shell) {
  auto kind = std::make_shared<std::string>();
  CLI::App* verb = add_verb(shell, "completion", "what a shell reads to complete these words",
                            "source <(lambent completion bash)");
  verb->add_option("SHELL", *kind, "bash, zsh or fish")->required();
  verb->callback([&shell, kind] {
    shell.verb = [&shell, kind](Transport&, const http::Endpoint&) {
      const auto script = completion_of(shell.app, *kind);
      if (!script.ok()) return cli::fail(shell.console, script.error());
      shell.console.out << *script;
      return 0;
    };
  });
}

// The verbs that are programs of their own: main has started those that come first on the line.
void add_programs(Shell& shell) {
  for (const auto& [name, what] : std::initializer_list<std::pair<const char*, const char*>>{
           {"serve", "run a worker here"},
           {"demo", "the tour, on an emulated GPU"},
           {"simulate", "a workload on modelled GPUs, faster than time"},
           {"sweep", "simulations over a grid of parameters"},
           {"bundle", "compile kernels"},
           {"slices", "how GPUs are cut into slices, and cutting them anew"},
           {"shim", "a program whose GPU memory is moved while it runs"}}) {
    const std::string verb = name;
    shell.app.add_subcommand(verb, what)->allow_extras()->callback([verb] {
      throw CLI::ValidationError(verb, "is a program of its own: write 'lambent " + verb +
                                           " ...', with its options after it");
    });
  }
}

// How the help shows them: what one needs first stands first.
void group_verbs(CLI::App& app) {
  const std::pair<const char*, std::vector<const char*>> kGroups[] = {
      {"Functions", {"init", "deploy", "invoke", "result", "logs", "ls", "rm", "objects"}},
      {"The worker",
       {"serve", "demo", "ps", "devices", "drain", "undrain", "version", "completion"}},
      {"Workloads", {"replay", "load", "report", "simulate", "sweep", "calibrate", "why"}},
      {"Kernels, slices and pipelines", {"bundle", "slices", "profile", "plan", "shim"}}};
  for (const auto& [group, verbs] : kGroups) {
    for (const char* verb : verbs) app.get_subcommand(verb)->group(group);
  }
}

// `lambent help` and `lambent help invoke`.
std::vector<std::string> help_for_help(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.push_back("--help");
  return words;
}

}  // namespace

int run_client_command(int argc, char** argv) {
  Shell shell;
  shell.app.require_subcommand(1);
  shell.app.set_version_flag("-v,--version", "lambent " LAMBENT_VERSION);
  shell.app.add_option("--endpoint", shell.endpoint,
                       "the worker: http://HOST:PORT or unix:PATH (or LAMBENT_ENDPOINT)");
  for (const auto add :
       {add_init, add_deploy, add_invoke, add_result, add_logs, add_listing, add_rm, add_objects,
        add_devices, add_why, add_replay, add_load, add_calibrate, add_report, add_profile,
        add_plan, add_completion, add_programs}) {
    add(shell);
  }
  group_verbs(shell.app);
  shell.app.footer(
      "'lambent VERB --help' tells a verb's options; docs/cli.md has an example of each.");
  std::vector<std::string> words = help_for_help(argc, argv);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    shell.app.parse(words);
  } catch (const CLI::ParseError& error) {
    return exit_of(shell.app, error);
  }
  const auto endpoint = http::parse_endpoint(shell.endpoint);
  if (!endpoint.ok()) return cli::fail(shell.console, endpoint.error());
  cli::HttpTransport transport(*endpoint);
  return shell.verb(transport, *endpoint);
}

}  // namespace lambent::bin
