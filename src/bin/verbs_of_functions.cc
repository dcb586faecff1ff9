// Verbs of lambent about functions and what they leave behind.
#include "bin/former_names.h"
#include "bin/lambent_verbs.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bin/fetch_environment.h"
#include "bin/flag_checks.h"
#include "bin/installation.h"
#include "bin/lambent_paths.h"
#include "edge/cli/api_json.h"
#include "edge/cli/deploy.h"
#include "edge/cli/describe.h"
#include "edge/cli/init.h"
#include "edge/cli/invocations.h"
#include "edge/cli/invoke.h"
#include "edge/cli/logs.h"
#include "edge/cli/model_loading.h"
#include "edge/cli/objects.h"
#include "edge/cli/remove.h"
#include "edge/cli/version_policy.h"
#include "edge/cli/versions.h"
#include "gpu/bundle/builder.h"
#include "gpu/bundle/child_process.h"
#include "node/objects/limits.h"

namespace lambent::bin {
namespace {

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

// Foreign bytes are read, and a compiler is fed with them, by a process of its own.
constexpr bundle::ChildLimits kImportLimits = {.wall_time = seconds(1800),
                                               .memory = Bytes::gib(16),
                                               .output = Bytes::mib(1),
                                               .file_size = Bytes::gib(4)};
// How python/lambent/onnx/__main__.py ends.
constexpr int kNotCovered = 3;
constexpr int kLacksPackages = 4;

constexpr std::string_view kImportName = "lambent.onnx: ";

// What it says itself, which begins with its name; else the last line, such as of a compiler.
std::string last_words(const std::string& text) {
  constexpr std::string_view kName = kImportName;
  if (const size_t own = text.rfind(kName); own != std::string::npos) {
    const size_t begin = own + kName.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  std::string words = text.substr(0, text.find_last_not_of('\n') + 1);
  words.erase(0, words.rfind('\n') + 1);
  return words;
}

// Otherwise env says that there is no uv, or uv what it could not fetch.
bool was_started_by_uv(const bundle::ChildOutcome& ended) {
  const bool has_failed = ended.exit_code == 127 || ended.exit_code == 1 || ended.exit_code == 2;
  const auto says = [&](std::string_view words) {
    return ended.standard_error.find(words) != std::string::npos;
  };
  return ended.timed_out || !has_failed || says(kImportName) || says("Traceback");
}

std::vector<std::string> import_words(const cli::ModelImportRequest& request) {
  std::vector<std::string> words = {"-m", "lambent.onnx"};
  if (request.batches) {
    const std::vector<std::string> flags = cli::flags_of(*request.batches);
    words.insert(words.end(), flags.begin(), flags.end());
  } else {
    words.insert(words.end(), {"--batch-size", std::to_string(request.batch)});
  }
  for (const std::string& shape : request.shapes) words.push_back("--shape=" + shape);
  if (!request.precision.empty()) words.push_back("--precision=" + request.precision);
  words.insert(words.end(), {"--", request.model, request.folder});
  return words;
}

// By lambent.onnx, with the Python that is there or, where that lacks the packages, with one that
// uv makes.
Result<cli::ModelImportOutcome> import_model(const std::string& python,
                                             const cli::ModelImportRequest& request) {
  ASSIGN_OR_RETURN(const Installation installation, find_installation());
  const std::vector<std::string> words = import_words(request);
  const std::vector<std::string> path = {"env", "PYTHONPATH=" + installation.python()};
  std::vector<std::string> command = path;
  command.push_back(python);
  command.insert(command.end(), words.begin(), words.end());
  auto ended = bundle::run_child(command, kImportLimits);
  if (ended.ok() && ended->exit_code == kLacksPackages) {
    command = path;
    const std::string packages = installation.python() + "/lambent/onnx/requirements.txt";
    command.insert(command.end(), {"uv", "run", "--quiet", "--no-project", "--with-requirements",
                                   packages, "python"});
    command.insert(command.end(), words.begin(), words.end());
    const std::string lacks = last_words(ended->standard_error);
    ended = bundle::run_child(command, kImportLimits);
    if (ended.ok() && !was_started_by_uv(*ended)) {
      return Error{ErrorCode::kFailedPrecondition,
                   lacks + ", which is not here or cannot fetch them (" +
                       last_words(ended->standard_error) +
                       "); --importer-python names a Python that has them"};
    }
  }
  if (!ended.ok()) return ended.error().with_context("reading " + request.model);
  if (ended->timed_out) {
    return Error{ErrorCode::kDeadlineExceeded,
                 request.model + ": it took longer than half an hour"};
  }
  if (ended->exit_code == 0)
    return cli::ModelImportOutcome{true, last_words(ended->standard_output)};
  std::string said = last_words(ended->standard_error);
  if (ended->exit_code == kNotCovered) return cli::ModelImportOutcome{false, std::move(said)};
  if (ended->exit_code > 128) {
    said = "what reads it broke down (signal " + std::to_string(ended->exit_code - 128) + ")";
  }
  return Error{ErrorCode::kInvalidArgument, std::move(said)}.with_context(request.model);
}

// Into the options, once it is known to be one.
CLI::Validator engine_words(cli::DeployOptions& options) {
  return CLI::Validator(
      [&options](const std::string& word) {
        options.engine = cli::model_engine_from(word);
        return options.engine ? std::string() : "it is onnxruntime, kernels or auto";
      },
      "ENGINE");
}

CLI::Validator policy_words() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto policy = cli::parse_version_policy(text);
        return policy.ok() ? std::string() : policy.error().message;
      },
      "POLICY");
}

// How models are fetched, as far as flags say it.
struct FetchFlags {
  std::string s3_endpoint;
  bool allows_private = false;
  double stall_s = 30;
};

// Of what the tenant may keep on the worker's disk, what is left. A worker that does not say it
// refuses what is too much when it comes.
Bytes room_at_worker(cli::Transport& transport, Bytes otherwise) {
  const auto who = cli::ask_json(transport, "GET", "/v1/whoami");
  if (!who.ok() || !who->contains("quotas") || !who->contains("usage")) return otherwise;
  const auto most = (*who)["quotas"].value("disk_bytes", nlohmann::ordered_json());
  const auto used = (*who)["usage"].value("disk_bytes", nlohmann::ordered_json());
  if (!most.is_number_unsigned() || !used.is_number_unsigned()) return otherwise;
  const Bytes quota(most.get<uint64_t>());
  const Bytes usage(used.get<uint64_t>());
  return quota > usage ? quota - usage : Bytes();
}

Result<cli::FetchOptions> fetch_options(cli::Transport& transport, cli::FetchCache& cache,
                                        const FetchFlags& flags) {
  cli::FetchOptions options{.cache = cache};
  options.most = room_at_worker(transport, options.most);
  options.stall = from_seconds(flags.stall_s);
  ASSIGN_OR_RETURN(options.s3, default_s3_access());
  if (!flags.s3_endpoint.empty()) options.s3.endpoint = flags.s3_endpoint;
  options.allows_private = flags.allows_private;
  options.proxies = default_proxies();
  return options;
}

void set_fetchers(Shell& shell, cli::Transport& transport, const FetchFlags& flags,
                  cli::DeployOptions& deploy) {
  // Of both, which are copied.
  const auto cache = std::make_shared<cli::FetchCache>(model_cache());
  deploy.fetch_model = [&shell, &transport, cache,
                        flags](const cli::ModelSource& source) -> Result<cli::FetchedModel> {
    ASSIGN_OR_RETURN(const cli::FetchOptions options, fetch_options(transport, *cache, flags));
    return cli::fetch_model(shell.console, source, options);
  };
  deploy.fetch_folder = [&shell, &transport, cache, flags](
                            const std::string& url,
                            const cli::FolderChoice& choice) -> Result<cli::FetchedFolder> {
    ASSIGN_OR_RETURN(const cli::FetchOptions options, fetch_options(transport, *cache, flags));
    return cli::fetch_model_folder(shell.console, url, options, choice);
  };
}

std::shared_ptr<FetchFlags> add_fetch_flags(CLI::App* verb, cli::DeployOptions& options) {
  auto flags = std::make_shared<FetchFlags>();
  verb->add_option("--sha256", options.sha256,
                   "of a model that is fetched: its digest, in hexadecimal digits");
  verb->add_option("--s3-endpoint", flags->s3_endpoint,
                   "of a store that speaks S3, where s3:// is not Amazon's (AWS_ENDPOINT_URL_S3)");
  verb->add_flag("--fetch-private", flags->allows_private,
                 "a server of the internet may redirect into a private network, and a model may "
                 "come from link-local addresses");
  verb->add_option("--fetch-timeout", flags->stall_s,
                   "seconds without a byte after which a fetch is tried again")
      ->capture_default_str()
      ->check(within(1.0, 3600.0));
  return flags;
}

}  // namespace

void add_init(Shell& shell) {
  auto options = std::make_shared<cli::InitOptions>();
  options->templates = find_shared("init");
  CLI::App* verb = add_verb(shell, "init", "write the folder of a small function, to begin with",
                            "lambent init hello --kind cuda");
  verb->add_option("NAME", options->folder, "the new folder, and the function's name")
      ->capture_default_str();
  verb->add_option(
          "--kind", options->kind,
          "python, cuda, native (C++), kernel (a graph of kernels), workflow, pipeline, http (a "
          "program that listens) or app (a Python file with lambent.App)")
      ->capture_default_str();
  bin::add_former_option(*verb, "--runtime", "--kind", options->kind);
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport&, const cli::Destination& destination) {
      options->endpoint = destination.endpoint;
      return cli::run_init(shell.console, *options);
    };
  });
}

void add_deploy(Shell& shell) {
  auto options = std::make_shared<cli::DeployOptions>();
  // It takes seconds: the user is told for what.
  options->build_bundle = [&shell](const std::string& source, const std::string& folder) {
    if (!shell.console.json) shell.console.err << "compiling " << source << "\n";
    return build_bundle(source, folder);
  };
  auto python = std::make_shared<std::string>("python3");
  options->import_model = [&shell, python](const cli::ModelImportRequest& request) {
    if (!shell.console.json) shell.console.err << "making kernels of " << request.model << "\n";
    return import_model(*python, request);
  };
  CLI::App* verb = add_verb(
      shell, "deploy", "create or update a function from its lambent.toml, a model or an image",
      "lambent deploy build/release/examples/01_python_vector_add");
  verb->add_option("PATH", options->path,
                   "a folder with lambent.toml, such a file, a model (.onnx), a folder in Triton's "
                   "layout (1/model.onnx, 2/model.onnx), or a model's URL (https://, s3://)");
  verb->add_option("--name", options->name, "instead of the manifest's name");
  verb->add_option("--code", options->code, "a folder or .zip instead of the manifest's code");
  verb->add_option("--image", options->image,
                   "a container image that serves HTTP, such as ghcr.io/owner/app:1, instead of a "
                   "folder with a manifest");
  auto engine = std::make_shared<std::string>();
  verb->add_option("--engine", *engine,
                   "what runs a model: onnxruntime; kernels, on a GPU; "
                   "or auto, which is kernels if there are some for all of it, and a GPU")
      ->check(engine_words(*options));
  verb->add_option("--provider", options->provider,
                   "where onnxruntime runs a model: cpu; cuda, on a GPU; or auto, which is cuda "
                   "where that is possible")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  verb->add_option("--gpu-memory", options->gpu_memory,
                   "GPU memory of a model, such as 2G, in place of [gpu] memory");
  verb->add_option("--shape", options->shapes,
                   "shape of an input that kernels are made for: x=1,3,224,224; may be repeated");
  verb->add_option("--batch-size", options->batch,
                   "how many elements a request to kernels has, where the model leaves it open");
  verb->add_option("--max-batch-size", options->most_elements,
                   "makes kernels for batches of 1, 2, 4 and so on up to it, and puts requests "
                   "together");
  verb->add_option("--precision", options->precision,
                   "of kernels: fp16 keeps weights of 32-bit floating point in 16 bits")
      ->check(CLI::IsMember({std::string(cli::kHalfPrecision)}));
  verb->add_option("--importer-python", *python,
                   "the Python with the packages of lambent[onnx], which makes kernels of models")
      ->capture_default_str();
  verb->add_option("--model-version", options->model_version,
                   "of a model: publishes it under this number, and requests that name no version "
                   "go to it once it is loaded")
      ->check(CLI::PositiveNumber);
  verb->add_option("--version-policy", options->version_policy,
                   "which versions of a model are there: latest:N, all or specific:N,N")
      ->check(policy_words());
  verb->add_flag("--dry-run", options->dry_run,
                 "check all, say what would change, and change nothing");
  CLI::Option* ends_early = verb->add_flag_callback(
      "--no-wait", [options] { options->waits = false; },
      "end while packages are installed, and not once the function serves");
  verb->add_flag("--wait")
      ->description("end once the function serves, as without --no-wait")
      ->excludes(ends_early);
  const auto flags = add_fetch_flags(verb, *options);
  verb->callback([&shell, options, engine, flags] {
    shell.verb = [&shell, options, flags](Transport& transport,
                                          const cli::Destination& destination) {
      options->endpoint = destination.endpoint;
      options->has_gpu = [&transport] { return cli::has_gpu(transport); };
      set_fetchers(shell, transport, *flags, *options);
      return cli::run_deploy(transport, shell.console, *options);
    };
  });
}

void add_publish(Shell& shell) {
  auto options = std::make_shared<cli::PublishOptions>();
  CLI::App* verb = add_verb(shell, "publish", "keep a function as it is now as its next version",
                            "lambent publish hello --description \"the first\"");
  verb->add_option("FUNCTION", options->function, "its name")->required();
  verb->add_option("--description", options->description,
                   "of the version, instead of the function's");
  verb->add_option("--number", options->version,
                   "its number, above all that were used, instead of the next one")
      ->check(CLI::PositiveNumber);
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_publish(transport, shell.console, *options);
    };
  });
}

void add_versions(Shell& shell) {
  CLI::App* group = shell.app.add_subcommand("versions", "the versions of a function");
  group->require_subcommand(1);
  auto function = std::make_shared<std::string>();
  CLI::App* list = add_verb(shell, "ls", "list its versions", "lambent versions ls hello", group);
  list->add_option("FUNCTION", *function, "its name")->required();
  list->callback([&shell, function] {
    shell.verb = [&shell, function](Transport& transport, const cli::Destination&) {
      return cli::run_versions_ls(transport, shell.console, *function);
    };
  });
  auto versions = std::make_shared<std::vector<std::string>>();
  CLI::App* remove = add_verb(shell, "rm", "remove versions that no alias needs",
                              "lambent versions rm hello 1", group);
  remove->add_option("FUNCTION", *function, "its name")->required();
  remove->add_option("VERSION", *versions, "their numbers")->required();
  remove->callback([&shell, function, versions] {
    shell.verb = [&shell, function, versions](Transport& transport, const cli::Destination&) {
      return cli::run_versions_rm(transport, shell.console, *function, *versions);
    };
  });
}

void add_alias(Shell& shell) {
  CLI::App* group =
      shell.app.add_subcommand("alias", "names for versions of a function, such as prod");
  group->require_subcommand(1);
  auto options = std::make_shared<cli::SetAliasOptions>();
  CLI::App* set = add_verb(shell, "set", "give a name to a version, or the name to another one",
                           "lambent alias set hello prod 1 --second 2=0.1", group);
  set->add_option("FUNCTION", options->function, "its name")->required();
  set->add_option("ALIAS", options->alias, "letters, digits, '-' and '_'")->required();
  set->add_option("VERSION", options->version, "a number, or $LATEST")->required();
  set->add_option("--second", options->second,
                  "VERSION=SHARE: another version, and its share of the invocations");
  set->add_option("--description", options->description, "what the alias is for");
  set->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_alias_set(transport, shell.console, *options);
    };
  });
  CLI::App* list = add_verb(shell, "ls", "list its aliases", "lambent alias ls hello", group);
  list->add_option("FUNCTION", options->function, "its name")->required();
  list->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_alias_ls(transport, shell.console, options->function);
    };
  });
  CLI::App* remove = add_verb(shell, "rm", "remove an alias", "lambent alias rm hello prod", group);
  remove->add_option("FUNCTION", options->function, "its name")->required();
  remove->add_option("ALIAS", options->alias, "its name")->required();
  remove->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_alias_rm(transport, shell.console, options->function, options->alias);
    };
  });
}

void add_rollback(Shell& shell) {
  auto function = std::make_shared<std::string>();
  CLI::App* list = add_verb(shell, "revisions", "list what a function was, the newest first",
                            "lambent revisions hello");
  list->add_option("FUNCTION", *function, "its name")->required();
  list->callback([&shell, function] {
    shell.verb = [&shell, function](Transport& transport, const cli::Destination&) {
      return cli::run_revisions(transport, shell.console, *function);
    };
  });
  auto revision = std::make_shared<std::optional<uint64_t>>();
  CLI::App* verb = add_verb(shell, "rollback", "deploy an earlier revision of a function again",
                            "lambent rollback hello --to 3");
  verb->add_option("FUNCTION", *function, "its name")->required();
  verb->add_option("--to", *revision, "the revision; without it, the one before the present one");
  verb->callback([&shell, function, revision] {
    shell.verb = [&shell, function, revision](Transport& transport, const cli::Destination&) {
      return cli::run_rollback(transport, shell.console, *function, *revision);
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
  auto* data = verb->add_option("-d,--data", options->payload,
                                "the event, JSON (default {}); @FILE: from a file, -: from stdin");
  verb->add_option("--file", options->file, "the event from a file; - is stdin")->excludes(data);
  verb->add_flag("--raw", options->raw, "the event is bytes, not JSON");
  verb->add_option("--content-type", options->content_type, "what the event is");
  verb->add_flag("--async", options->asynchronous, "queue it durably and print its id");
  verb->add_flag("--stream", options->streams, "show the answer as it comes");
  verb->add_flag("--log", options->log, "also show the last 4 KB that the function printed");
  verb->add_option("-o,--output", options->output, "write the answer to this file");
  verb->add_option("--timeout", *timeout_s, "seconds to wait for the answer")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  verb->callback([&shell, options, timeout_s] {
    options->timeout = from_seconds(*timeout_s);
    shell.verb = [&shell, options](Transport& transport, const cli::Destination& destination) {
      options->connect = [destination] {
        return std::make_unique<cli::HttpTransport>(destination);
      };
      return cli::run_invoke(transport, shell.console, *options);
    };
  });
}

void add_result(Shell& shell) {
  auto options = std::make_shared<cli::ResultOptions>();
  CLI::App* verb = add_verb(shell, "result", "fetch what an asynchronous invocation answered",
                            "lambent result 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a --wait");
  verb->add_option("ID", options->id, "as 'lambent invoke --async' printed it")->required();
  verb->add_flag("--wait", options->wait, "wait until it is done");
  verb->add_option("-o,--output", options->output, "write the answer to this file");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_result(transport, shell.console, *options);
    };
  });
}

void add_logs(Shell& shell) {
  auto options = std::make_shared<cli::LogsOptions>();
  CLI::App* verb =
      add_verb(shell, "logs", "print what a function printed", "lambent logs -f hello");
  verb->add_option("NAME", options->name, "the function")->required();
  auto* follow = verb->add_flag("-f,--follow", options->follow, "go on as more comes");
  verb->add_option("-n,--tail", options->tail, "begin at most so many lines before the end")
      ->check(whole_number());
  verb->add_flag("-t,--timestamps", options->timestamps, "when each line was printed");
  auto since = std::make_shared<std::string>();
  verb->add_option(
      "--since", *since,
      "only what was printed so long ago at most, such as 10m, or since a time such as "
      "2026-11-29T17:36:32Z");
  verb->add_option("--id", options->invocation,
                   "only the lines of this invocation, from its START to its END")
      ->excludes(follow);
  verb->callback([&shell, options, since] {
    shell.verb = [&shell, options, since](Transport& transport, const cli::Destination&) {
      if (!since->empty()) {
        const SystemClock clock;
        const auto time = cli::since_in(*since, clock.wall_now());
        if (!time.ok()) return cli::fail(shell.console, time.error());
        options->since = *time;
      }
      return cli::run_logs(transport, shell.console, *options);
    };
  });
}

void add_describe(Shell& shell) {
  auto name = std::make_shared<std::string>();
  CLI::App* verb = add_verb(shell, "describe",
                            "show one function: its settings, what it does, and how its calls went",
                            "lambent describe hello");
  verb->add_option("NAME", *name, "the function")->required();
  verb->callback([&shell, name] {
    shell.verb = [&shell, name](Transport& transport, const cli::Destination&) {
      return cli::run_describe(transport, shell.console, *name);
    };
  });
}

void add_invocations(Shell& shell) {
  auto options = std::make_shared<cli::InvocationsOptions>();
  CLI::App* verb = add_verb(shell, "invocations",
                            "list the invocations that wait or run, and the last that ended",
                            "lambent invocations hello --limit 50");
  verb->add_option("NAME", options->function, "only those of this function");
  verb->add_option("--limit", options->limit,
                   "how many of those that ended; the worker remembers the last 2,048")
      ->check(CLI::Range(1, 500))
      ->capture_default_str();
  verb->add_flag("--slowest", options->slowest,
                 "of those that ended and are remembered, the slowest instead of the last");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_invocations(transport, shell.console, *options);
    };
  });
  auto id = std::make_shared<std::string>();
  verb = add_verb(shell, "cancel", "end an invocation that waits, starts or runs",
                  "lambent cancel 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a");
  verb->add_option("ID", *id, "as 'lambent invocations' lists it")->required();
  verb->callback([&shell, id] {
    shell.verb = [&shell, id](Transport& transport, const cli::Destination&) {
      return cli::run_cancel(transport, shell.console, *id);
    };
  });
}

void add_rm(Shell& shell) {
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = add_verb(shell, "rm", "remove functions", "lambent rm hello");
  verb->add_option("NAME", *names, "the functions")->required();
  verb->callback([&shell, names] {
    shell.verb = [&shell, names](Transport& transport, const cli::Destination&) {
      return cli::run_rm(transport, shell.console, *names);
    };
  });
}

void add_objects(Shell& shell) {
  CLI::App* objects = shell.app.add_subcommand("objects", "put, get, list and remove objects");
  objects->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, const char* example) {
    return add_verb(shell, name, what, example, objects);
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
    shell.verb = [&shell, put](Transport& transport, const cli::Destination&) {
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
    shell.verb = [&shell, get](Transport& transport, const cli::Destination&) {
      return cli::run_objects_get(transport, shell.console, *get);
    };
  });
  add("ls", "list the objects", "lambent objects ls")->callback([&shell] {
    shell.verb = [&shell](Transport& transport, const cli::Destination&) {
      return cli::run_objects_ls(transport, shell.console);
    };
  });
  auto ids = std::make_shared<std::vector<std::string>>();
  verb = add("rm", "remove objects", "lambent objects rm 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a.0");
  verb->add_option("ID", *ids, "the objects")->required();
  verb->callback([&shell, ids] {
    shell.verb = [&shell, ids](Transport& transport, const cli::Destination&) {
      return cli::run_objects_rm(transport, shell.console, *ids);
    };
  });
}

}  // namespace lambent::bin
