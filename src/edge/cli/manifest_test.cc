// lambent.toml: every field of a function has its key, and a mistake is named.
#include "edge/cli/manifest.h"

#include "core/domain/command_line.h"
#include "core/domain/model_function.h"

#include <gmock/gmock.h>

#include <regex>

#include "core/domain/testing/every_field.h"

namespace lambent::cli {
namespace {

using testing::ElementsAre;

// Writes a function as the manifest that gives it.
class ManifestText {
 public:
  explicit ManifestText(const FunctionSpec& spec) { visit_fields(*this, spec); }
  std::string text() const {
    std::string text;
    for (const auto& [table, lines] : tables_) {
      if (!table.empty()) text += "[" + table + "]\n";
      text += lines;
    }
    return text + mounts_;
  }

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    if (field.key.empty()) return;
    const size_t dot = field.key.find('.');
    const std::string table(dot == std::string_view::npos ? "" : field.key.substr(0, dot));
    const std::string key(dot == std::string_view::npos ? field.key : field.key.substr(dot + 1));
    tables_[table] += key + " = " + toml_of(value) + "\n";
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    if (!variant) return;
    tables_[std::string(field.key)];
    visit_cpu_variant(*this, *variant);
  }
  void operator()(const FunctionField& field, const Variables& values) {
    for (const auto& [key, value] : values) {
      tables_[std::string(field.key)] += key + " = '" + value + "'\n";
    }
  }

  void operator()(const FunctionField& field, const Mounts& mounts) {
    for (const Mount& mount : mounts) {
      const bool is_volume = !mount.volume.empty();
      mounts_ +=
          "[[" + std::string(field.key) + "]]\n" +
          (is_volume ? "volume = " + toml_of(mount.volume) : "host = " + toml_of(mount.host)) +
          "\nat = " + toml_of(mount.at) + "\n";
    }
  }

  void operator()(const FunctionField& field, const Schedules& schedules) {
    for (const Schedule& schedule : schedules) {
      mounts_ += "[[" + std::string(field.key) + "]]\nname = " + toml_of(schedule.name) +
                 "\ncron = " + toml_of(schedule.cron) +
                 "\ntimezone = " + toml_of(schedule.timezone) +
                 "\npayload = {full = true}\ncatch_up = " + toml_of(schedule.catch_up) +
                 "\nenabled = " + toml_of(schedule.enabled) + "\n";
    }
  }

 private:
  static std::string toml_of(const NetworkAccess& access) { return toml_of(text_of(access)); }
  static std::string toml_of(const std::string& text) { return "'" + text + "'"; }
  static std::string toml_of(bool value) { return value ? "true" : "false"; }
  static std::string toml_of(double number) { return std::to_string(number); }
  template <std::unsigned_integral Number>
  static std::string toml_of(Number number) {
    return std::to_string(number);
  }
  static std::string toml_of(Bytes amount) { return std::to_string(amount.count >> 20); }
  static std::string toml_of(Duration duration) { return std::to_string(to_seconds(duration)); }
  template <HasWords Enum>
  static std::string toml_of(Enum value) {
    return "'" + std::string(name_of(value)) + "'";
  }
  template <typename Tag, typename Number>
  static std::string toml_of(StrongId<Tag, Number> id) {
    return std::to_string(id.value);
  }

  std::map<std::string, std::string> tables_;
  std::string mounts_;
};

// Expects that the fields which have a key are equal.
struct ExpectEqualKeys {
  template <typename Value>
  void operator()(const FunctionField& field, const Value& one, const Value& other) {
    if (field.key.empty()) return;
    EXPECT_EQ(one, other) << field.key;
  }
};

TEST(Manifest, GivesEveryFieldThatHasAKey) {
  FunctionSpec spec = with_every_field_set();
  // The other kinds lack some keys, and it lacks those of HTTP functions.
  spec.kind = FunctionKind::kHandler;
  spec.http = {};
  const std::string text = std::regex_replace(
      ManifestText(spec).text(), std::regex("\n(port|readiness|concurrency) = .*"), "");
  const auto read = parse_manifest(text, "lambent.toml");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_THAT(read->warnings, ElementsAre());
  ExpectEqualKeys expect;
  visit_fields(expect, spec, read->spec);
  EXPECT_EQ(read->spec.runtime, Runtime::kPython);
}

TEST(Manifest, GivesTheDefaultOfEveryFieldThatItDoesNotName) {
  const auto read = parse_manifest("", "lambent.toml");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->spec, FunctionSpec());
}

TEST(Manifest, ATableOfTheCpuAloneMakesAVariant) {
  const auto read = parse_manifest("[gpu]\nmemory = 1\n[cpu]\n", "lambent.toml");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->spec.cpu_variant, CpuVariant());
}

TEST(Manifest, AModelIsAnHttpFunctionWhoseProgramIsOurs) {
  const auto plain = parse_manifest("kind = 'model'\nname = 'm'", "f");
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_EQ(plain->spec.kind, FunctionKind::kHttp);
  EXPECT_EQ(plain->spec.handler, "lambent-model-server model.onnx");
  EXPECT_TRUE(serves_model(plain->spec));
  EXPECT_EQ(plain->spec.memory, Bytes::gib(1));
  EXPECT_EQ(plain->python->packages.requirements, std::vector<std::string>{"onnxruntime"});
  EXPECT_TRUE(plain->warnings.empty());
  const auto own = parse_manifest(
      "kind = 'model'\nname = 'm'\nmodel = 'a b.onnx'\nthreads = 2\nmemory = '256M'\n"
      "[python]\nrequirements = ['onnxruntime==1.20']",
      "f");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(command_words(own->spec.handler).value(),
            (std::vector<std::string>{"lambent-model-server", "a b.onnx", "--threads", "2"}));
  EXPECT_EQ(own->spec.memory, Bytes::mib(256));
  EXPECT_EQ(own->python->packages.requirements, std::vector<std::string>{"onnxruntime==1.20"});
  const auto version =
      parse_manifest("kind = 'model'\nname = 'm'\n[python]\nversion = '3.11'", "f");
  ASSERT_TRUE(version.ok()) << version.error().message;
  EXPECT_EQ(version->python->packages,
            (PythonPackages{.version = "3.11", .requirements = {"onnxruntime"}}));
}

TEST(Manifest, AModelOfOnnxruntimeMayRunOnAGpu) {
  for (const std::string provider : {"cuda", "auto"}) {
    const auto read = parse_manifest(
        "kind = 'model'\nname = 'm'\nprovider = '" + provider + "'\n[gpu]\nmemory = '2G'", "f");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->spec.handler, "lambent-model-server model.onnx --provider " + provider);
    EXPECT_EQ(read->spec.gpu.memory, Bytes::gib(2));
    EXPECT_EQ(read->python->packages.requirements,
              std::vector<std::string>{"onnxruntime-gpu[cuda,cudnn]"});
    EXPECT_TRUE(read->warnings.empty());
  }
  const auto host = parse_manifest("kind = 'model'\nname = 'm'\nprovider = 'cpu'", "f");
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(host->spec.handler, "lambent-model-server model.onnx");
  EXPECT_EQ(host->python->packages.requirements, std::vector<std::string>{"onnxruntime"});
}

TEST(Manifest, TheCommandLineSaysOfAModelWhatItsManifestMay) {
  const std::string model = "kind = 'model'\nname = 'm'\n";
  const auto cuda = parse_manifest(model, "f", {.provider = "cuda", .gpu_memory = "2G"});
  ASSERT_TRUE(cuda.ok()) << cuda.error().message;
  EXPECT_EQ(cuda->spec.handler, "lambent-model-server model.onnx --provider cuda");
  EXPECT_EQ(cuda->spec.gpu.memory, Bytes::gib(2));
  EXPECT_EQ(cuda->python->packages.requirements,
            std::vector<std::string>{"onnxruntime-gpu[cuda,cudnn]"});

  const std::string on_gpu = model + "provider = 'auto'\n[gpu]\nmemory = '1G'\n";
  const auto larger = parse_manifest(on_gpu, "f", {.provider = "cuda", .gpu_memory = "3G"});
  ASSERT_TRUE(larger.ok()) << larger.error().message;
  EXPECT_EQ(larger->spec.gpu.memory, Bytes::gib(3));
  const auto host = parse_manifest(on_gpu, "f", {.provider = "cpu"});
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(host->spec.handler, "lambent-model-server model.onnx");
  EXPECT_EQ(host->spec.gpu.memory, Bytes(0));

  const std::string kernels =
      model + "engine = 'kernels'\nshapes = ['x=1,3']\nprecision = 'fp16'\n";
  const auto plain =
      parse_manifest(kernels, "f", {.engine = ModelEngineChoice::kOnnxruntime, .provider = "cpu"});
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_EQ(plain->model->engine, ModelEngineChoice::kOnnxruntime);
  const auto shared =
      parse_manifest(model + "[gpu]\nshare = 50\n", "f", {.engine = ModelEngineChoice::kKernels});
  EXPECT_TRUE(shared.ok()) << shared.error().message;

  const auto error_of = [](const std::string& text, const ModelOverrides& overrides) {
    const auto read = parse_manifest(text, "f", overrides);
    return read.ok() ? std::string("none") : read.error().message;
  };
  EXPECT_EQ(error_of(model, {.provider = "cuda"}),
            "--provider cuda needs a GPU: say how much of its memory, such as --gpu-memory 2G");
  EXPECT_EQ(error_of(model, {.gpu_memory = "2G"}),
            "--gpu-memory is for a model on a GPU: add --provider cuda or --engine kernels");
  EXPECT_THAT(error_of(model, {.provider = "cuda", .gpu_memory = "much"}),
              testing::HasSubstr("--gpu-memory"));
  EXPECT_EQ(error_of(kernels, {.provider = "cuda", .gpu_memory = "2G"}),
            "--provider is for models that onnxruntime runs; kernels serve this one");
}

TEST(Manifest, AMountThatIsWrongIsNamedWithItsLine) {
  const auto error_of = [](const std::string& text) {
    const auto read = parse_manifest(text, "f");
    return read.ok() ? std::string("none") : read.error().message;
  };
  const std::string form =
      "mounts are tables, [[mounts]], each with at = \"/weights\" and either volume = \"NAME\" or "
      "host = \"/a/folder\"";
  EXPECT_EQ(error_of("[mounts]\nvolume = 'w'\nat = '/w'"), "f line 1: " + form);
  EXPECT_EQ(error_of("[[mounts]]\nvolume = 'w'"), "f line 1: " + form);
  EXPECT_EQ(error_of("[[mounts]]\nat = '/w'"), "f line 1: " + form);
  EXPECT_EQ(error_of("[[mounts]]\nvolume = 'w'\nhost = '/w'\nat = '/w'"), "f line 1: " + form);
  EXPECT_EQ(error_of("mounts = 'w:/w'"), "f line 1: " + form);
  EXPECT_EQ(error_of("[[mounts]]\nvolume = 'w'\nat = '/w'\nwritable = true"),
            "f line 4: mounts has 'writable'; a mount has only the texts volume or host, and at");
  EXPECT_THAT(error_of("[[mounts]]\nvolume = 'w'\nat = '/tmp/w'"),
              testing::HasSubstr("f line 1: mounts are wrong: a mount cannot be at '/tmp/w'"));
  EXPECT_THAT(error_of("kind = 'workflow'\n[[mounts]]\nvolume = 'w'\nat = '/w'"),
              testing::HasSubstr("a function of kind 'workflow' has no mounts"));
}

TEST(Manifest, ANetworkIsAWordOrAList) {
  const auto error_of = [](const std::string& text) {
    const auto read = parse_manifest(text, "f");
    return read.ok() ? std::string("none") : read.error().message;
  };
  EXPECT_THAT(error_of("network = ['api.example.org']"),
              testing::HasSubstr("f line 1: network is wrong: network: 'api.example.org' has no "
                                 "port; an entry is HOST:PORT"));
  EXPECT_THAT(error_of("network = 'everything'"), testing::HasSubstr("has no port"));
  EXPECT_THAT(error_of("network = true"), testing::HasSubstr("must be a list of texts"));
  EXPECT_THAT(error_of("kind = 'workflow'\nnetwork = 'outbound'"),
              testing::HasSubstr("a function of kind 'workflow' has no network"));
}

TEST(Manifest, AWrongValueIsNamedWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"name = 1", "f line 1: name must be text in quotes"},
      {"kind = 1", "f line 1: kind must be text in quotes"},
      {"kind = 'x'",
       "f: kind is 'x'; it can be 'model', 'handler', 'kernel', 'workflow', "
       "'pipeline' or 'http'"},
      {"runtime = 'java'",
       "f: runtime is 'java'; it can be 'provided.al2023' (an executable named bootstrap), "
       "'python3' or 'python3.N', with N from 3 to 15"},
      {"\nmemory = 'much'", "f line 2: memory is 'much', not an amount such as \"512M\""},
      {"memory = -1", "f line 1: memory must be an amount such as \"512M\", or a number of MiB"},
      {"timeout_s = 'x'", "f line 1: timeout_s must be a number"},
      {"weight = true", "f line 1: weight must be a number"},
      {"max_concurrency = 0", "f line 1: max_concurrency must be a whole number above zero"},
      {"max_concurrency = 1000001", "f line 1: max_concurrency must be a whole number above zero"},
      {"environment = 1", "f line 1: environment must be a table of texts"},
      {"[environment]\nA = 1", "f line 2: environment must have only texts in quotes"},
      {"tags = 1", "f line 1: tags must be a table of texts"},
      {"gpu = 1", "f line 1: gpu must be a table: [gpu] on a line of its own, with its keys below"},
      {"cpu = 1", "f line 1: cpu must be a table: [cpu] on a line of its own, with its keys below"},
      {"slo = 1", "f line 1: slo must be a table: [slo] on a line of its own, with its keys below"},
      {"[gpu]\nmemory = 'much'", "f line 2: gpu.memory is 'much', not an amount such as \"512M\""},
      {"[gpu]\nlaunch_mode = 'x'",
       "f line 2: gpu.launch_mode is 'x'; it can be 'compute' or 'model'"},
      {"[gpu]\nlaunch_mode = 1", "f line 2: gpu.launch_mode must be text in quotes"},
      {"[gpu]\nmemory_mode = 'x'",
       "f line 2: gpu.memory_mode is 'x'; it can be 'vmm', 'uvm' or 'off'"},
      {"[gpu]\nworking_set = 'x'",
       "f line 2: gpu.working_set is 'x'; it can be 'worker', 'whole' or 'touched'"},
      {"[gpu]\ncheckpoint = 1", "f line 2: gpu.checkpoint must be true or false"},
      {"[gpu]\nruntime = 'x'", "f line 2: gpu.runtime is 'x'; it can be 'own' or 'shared'"},
      {"[gpu]\ndomain = 1", "f line 2: gpu.domain must be text in quotes"},
      {"[gpu]\nshare = 0", "f line 2: gpu.share must be a whole number above zero"},
      {"[cpu]\nhandler = 1", "f line 2: cpu.handler must be text in quotes"},
      {"[cpu]\ngpu_speedup = 'x'", "f line 2: cpu.gpu_speedup must be a number"},
      {"bundles = 1", "f line 1: bundles must be a list of texts"},
      {"sources = [1]", "f line 1: sources must be a list of texts"},
      {"code = 1", "f line 1: code must be text in quotes"},
      {"graph = 'g'", "f line 1: a function of kind 'handler' has no graph"},
      {"kind = 'kernel'\ngraph = 1", "f line 2: graph must be text in quotes"},
      {"kind = 'model'\ncommand = ['x']", "f line 2: a function of kind 'model' has no command"},
      {"kind = 'model'\n[gpu]\nmemory = '1G'",
       "f line 2: gpu is for models with engine = \"kernels\" or \"auto\", or with provider = "
       "\"cuda\" or \"auto\"; this one runs on the host's processors"},
      {"kind = 'model'\nbatch_size = 2",
       "f line 2: batch_size is for models with engine = \"kernels\" or \"auto\"; this one runs on "
       "the "
       "host's processors"},
      {"kind = 'model'\nprovider = 'tensorrt'",
       "f line 2: provider is \"cpu\", \"cuda\" or \"auto\""},
      {"kind = 'model'\nengine = 'kernels'\nprovider = 'cuda'\n[gpu]\nmemory = '1G'",
       "f line 3: provider is for models that onnxruntime runs; this one has engine = \"kernels\""},
      {"kind = 'model'\nprovider = 'cuda'",
       "f line 2: provider = \"cuda\" needs a GPU: say how much of its memory under [gpu], such as "
       "memory = \"2G\""},
      {"kind = 'model'\nprovider = 'cpu'\n[gpu]\nmemory = '1G'",
       "f line 3: gpu is for models with engine = \"kernels\" or \"auto\", or with provider = "
       "\"cuda\" or \"auto\"; this one runs on the host's processors"},
      {"kind = 'http'\ncommand = ['x']\nprovider = 'cuda'",
       "f line 3: provider is for functions of kind 'model'"},
      {"kind = 'model'\nengine = 'x'",
       "f line 2: engine is \"onnxruntime\", \"kernels\" or \"auto\""},
      {"kind = 'model'\nengine = 'kernels'\nbatch_size = 0",
       "f line 3: batch_size is a whole number from 1 to 65536"},
      {"kind = 'model'\nengine = 'kernels'\nprecision = 'fp8'",
       "f line 3: precision is \"fp16\"; without it, it is that of the model's file"},
      {"kind = 'model'\nprecision = 'fp16'",
       "f line 2: precision is for models with engine = \"kernels\" or \"auto\"; this one runs on "
       "the host's processors"},
      {"kind = 'model'\nengine = 'kernels'\nbatch_size = 2\n[batch]\nsize = 4",
       "f line 3: batch_size is for requests of one size; [batch] has those up to its own"},
      {"kind = 'model'\nengine = 'kernels'\nshapes = 'x=1'",
       "f line 3: shapes is a list of words, such as [\"python3\", \"app.py\"]"},
      {"kind = 'http'\ncommand = ['x']\nengine = 'kernels'",
       "f line 3: engine is for functions of kind 'model'"},
      {"kind = 'model'\nthreads = 0", "f line 2: threads is a whole number from 1 to 1024"},
      {"kind = 'model'\nmodel = 1",
       "f line 2: model is the name of a file, such as \"model.onnx\""},
      {"kind = 'http'\ncommand = ['x']\nmodel = 'm'",
       "f line 3: model is for functions of kind 'model'"},
      {"kind = 'kernel'\nruntime = 'x'", "f line 2: a function of kind 'kernel' has no runtime"},
  };
  for (const auto& [text, message] : cases) {
    const auto read = parse_manifest(text, "f");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().message, message);
  }
}

TEST(Manifest, WarnsOfKeysThatItDoesNotKnow) {
  const auto read = parse_manifest(
      "rode = 1\nnmae = 'x'\nxpu = 1\nkind = 'pipeline'\nunlike_any = 2\n[gpu]\nshares = 1\n"
      "[cpu]\nspeedup = 1\n[slo]\nms = 5\nscales = 1\n",
      "f");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "f line 8: a function of kind 'pipeline' has no cpu");
  const auto others = parse_manifest(
      "rode = 1\nnmae = 'x'\nxpu = 1\nkind = 'pipeline'\nunlike_any = 2\n[gpu]\nshares = 1\n"
      "[slo]\nms = 5\nscales = 1\n",
      "f");
  ASSERT_TRUE(others.ok()) << to_string(others.error());
  EXPECT_THAT(
      others->warnings,
      ElementsAre("f line 2: no key 'nmae'; did you mean 'name'?",
                  "f line 1: no key 'rode'; did you mean 'code'?", "f line 5: no key 'unlike_any'",
                  "f line 3: no key 'xpu'; did you mean 'gpu'?",
                  "f line 7: no key 'gpu.shares'; did you mean 'gpu.share'?",
                  "f line 10: no key 'slo.scales'; did you mean 'slo.scale'?"));
}

TEST(Manifest, SaysWhereAKeyOfAnotherTableBelongs) {
  const auto read = parse_manifest(
      "name = 'f'\nrequirements = ['numpy']\nmemory_mode = 'uvm'\nretries = 2\ncron = '1 * * * *'\n"
      "invoke_mode = 'buffered'\nhandler = 'a.b'\nruntime = 'python3'\n",
      "f");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_THAT(read->warnings, testing::UnorderedElementsAre(
                                  "f line 2: no key 'requirements'; it belongs into [python]",
                                  "f line 3: no key 'memory_mode'; it belongs into [gpu]",
                                  "f line 4: no key 'retries'; it belongs into [asynchronous]",
                                  "f line 5: no key 'cron'; it belongs into [[schedules]]",
                                  "f line 6: no key 'invoke_mode'; it belongs into [url]"));
  const auto wrong = parse_manifest("name = 'f'\ngpu = '2G'\n", "f");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message,
            "f line 2: gpu must be a table: [gpu] on a line of its own, with its keys below");
}

TEST(Manifest, WarnsOfVariablesThatTheWorkerSets) {
  const auto read = parse_manifest(
      "name = 'f'\nhandler = 'a.b'\nruntime = 'python3'\n[environment]\nAWS_REGION = 'eu'\n"
      "AWS_LAMBDA_FUNCTION_NAME = 'x'\nAWS_ACCESS_KEY_ID = 'mine'\nTZ = 'Europe/Zurich'\n",
      "f");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_THAT(
      read->warnings,
      ElementsAre("f: environment.AWS_LAMBDA_FUNCTION_NAME has no effect: the worker sets this "
                  "variable itself",
                  "f: environment.AWS_REGION has no effect: the worker sets this variable itself"));
}

TEST(Manifest, KnowsEveryKeyOfAWorkflow) {
  const auto read = parse_manifest(
      "name = 'w'\nkind = 'workflow'\ngraph = 'g.json'\ncode = 'c'\ndescription = 'd'\n", "f");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_THAT(read->warnings, ElementsAre());
  EXPECT_EQ(read->spec.handler, "g.json");
}

TEST(Manifest, OfAnHttpFunctionHasTheCommandThatStartsItsProgram) {
  const auto manifest = parse_manifest(
      "name = 'web'\nkind = 'http'\ncommand = ['./my server', '--verbose']\nport = 9000\n"
      "readiness = '/healthz'\n",
      "f");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(manifest->spec.handler, "\"./my server\" --verbose");
  EXPECT_EQ(manifest->spec.http.port, 9000u);
  EXPECT_EQ(manifest->spec.http.readiness, "/healthz");
  EXPECT_TRUE(validate(manifest->spec).ok());
  EXPECT_TRUE(manifest->warnings.empty());
}

TEST(Manifest, OfAnHttpFunctionWithoutACommandIsRefused) {
  for (const char* command :
       {"", "command = 'python3 server.py'\n", "command = []\n", "command = ['a', 1]\n"}) {
    const auto manifest =
        parse_manifest(std::string("name = 'web'\nkind = 'http'\n") + command, "f");
    ASSERT_FALSE(manifest.ok()) << command;
    EXPECT_NE(manifest.error().message.find("command = [\"python3\""), std::string::npos);
  }
}

TEST(Manifest, AnImageIsTheCode) {
  const auto http = parse_manifest(
      "kind = 'http'\nimage = 'ghcr.io/a/b:1'\nentry_point = ['/bin/x']\ncommand = ['a b']\n"
      "working_directory = '/w'\nport = 7000",
      "f/lambent.toml");
  ASSERT_TRUE(http.ok()) << http.error().message;
  EXPECT_EQ(http->spec.runtime_name, "image");
  EXPECT_EQ(http->spec.handler, "--entrypoint=/bin/x --workdir=/w ghcr.io/a/b:1 \"a b\"");
  EXPECT_EQ(http->spec.http.port, 7000U);
  const auto handler = parse_manifest("image = 'a:1'\ncommand = ['app.handler']", "lambent.toml");
  ASSERT_TRUE(handler.ok()) << handler.error().message;
  EXPECT_EQ(handler->spec.handler, "a:1 app.handler");
  EXPECT_TRUE(handler->warnings.empty());
  const auto local = parse_manifest("image = 'oci:../images/x:1'", "/srv/f/lambent.toml");
  ASSERT_TRUE(local.ok()) << local.error().message;
  EXPECT_EQ(local->spec.handler, "oci:/srv/images/x:1");
}

TEST(Manifest, WhatDoesNotGoWithAnImageIsNamedWithItsLine) {
  for (const char* more : {"runtime = 'python3'", "handler = 'a.b'", "code = '.'",
                           "kind = 'workflow'", "image = 7", "[python]\nrequirements = ['numpy']",
                           "entry_point = 'x'", "command = [7]", "working_directory = 'here'"}) {
    const std::string text =
        std::string(more).starts_with("image") ? more : "image = 'a:1'\n" + std::string(more);
    const auto manifest = parse_manifest(text, "lambent.toml");
    ASSERT_FALSE(manifest.ok()) << more;
    EXPECT_EQ(manifest.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(manifest.error().message.find("lambent.toml line "), std::string::npos) << more;
  }
  EXPECT_FALSE(parse_manifest("image = 'Not/A/Name'", "lambent.toml").ok());
  EXPECT_FALSE(parse_manifest("entry_point = ['x']", "lambent.toml").ok());
}

TEST(Manifest, OfAnotherKindHasNoPortAndNoCommand) {
  const auto manifest = parse_manifest("name = 'x'\nhandler = 'a.b'\nport = 80\n", "f");
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().message, "f line 3: a function of kind 'handler' has no port");
}

TEST(Manifest, ModelsOfOpenaisApiAreATagOfAnHttpFunction) {
  const std::string web = "name = 'a'\nkind = 'http'\ncommand = ['./a']\n";
  const auto read = parse_manifest(web + "openai_models = ['tiny', 'org/large']", "lambent.toml");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->spec.tags.at("lambent:openai-models"), "tiny,org/large");
  EXPECT_THAT(read->warnings, testing::IsEmpty());
  const auto message_of = [](const std::string& text) {
    return parse_manifest(text, "lambent.toml").error().message;
  };
  EXPECT_THAT(message_of(web + "openai_models = 'tiny'"),
              testing::HasSubstr("line 4: openai_models is a list of names"));
  EXPECT_THAT(message_of(web + "openai_models = ['a b']"),
              testing::HasSubstr("without commas and spaces"));
  EXPECT_THAT(message_of("name = 'a'\nhandler = 'a.b'\nruntime = 'python3'\nopenai_models = ['a']"),
              testing::HasSubstr("has no openai_models"));
  EXPECT_THAT(message_of("name = 'a'\nkind = 'model'\nopenai_models = ['a']"),
              testing::HasSubstr("has no openai_models"));
}

TEST(Manifest, BatchesOfAModelAreFlagsOfItsProgram) {
  const std::string model = "name = 'm'\nkind = 'model'\n";
  const auto read =
      parse_manifest(model + "[batch]\nsize = 16\nwait_ms = 0.5\nslo_ms = 40", "lambent.toml");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_THAT(*command_words(read->spec.handler),
              ElementsAre("lambent-model-server", "model.onnx", "--batch", "16", "--batch-wait-ms",
                          "0.5", "--batch-slo-ms", "40"));
  const auto message_of = [](const std::string& text) {
    return parse_manifest(text, "lambent.toml").error().message;
  };
  for (const char* bad : {"batch = 3", "[batch]\nwait_ms = 1", "[batch]\nsize = 1.5",
                          "[batch]\nsize = 4\nslo_ms = 0", "[batch]\nsize = 4\nmost = 1"}) {
    EXPECT_THAT(message_of(model + bad), testing::HasSubstr("batch")) << bad;
  }
  EXPECT_THAT(message_of("name = 'a'\nkind = 'http'\ncommand = ['./a']\n[batch]\nsize = 4"),
              testing::HasSubstr("batch is for functions of kind 'model'"));
}

}  // namespace
}  // namespace lambent::cli
