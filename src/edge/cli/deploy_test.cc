// deploy: which calls a manifest becomes, and what is said of one that is wrong.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/archive/code_delta.h"
#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "core/base/random.h"
#include "core/base/testing/testing.h"
#include "core/http/multipart.h"
#include "edge/cli/deploy.h"
#include "edge/cli/testing/verbs_testing.h"

namespace lambent::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;

class Deploy : public Verbs {
 protected:
  void write(const std::string& name, std::string_view text) {
    const auto path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    ASSERT_TRUE(write_file_atomically(path, text, false).ok());
  }
  // The parts of a deployment that was sent, by their names.
  static std::map<std::string, std::string> parts_of(const http::Request& request) {
    std::map<std::string, std::string> parts;
    const auto read = http::parse_multipart(request.headers.get("Content-Type"), request.body);
    EXPECT_TRUE(read.ok());
    for (const http::Part& part : read.value()) parts[part.name] = part.content;
    return parts;
  }
  TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
};

TEST_F(Deploy, CreatesAFunctionFromItsManifest) {
  write("lambent.toml",
        "name = \"hello\"\nruntime = \"python3\"\nhandler = \"app.handler\"\ncode = \"code\"\n"
        "memory = \"256M\"\ntimeout_s = 12\nweight = 2.5\nmax_concurency = 3\n"
        "bundles = [\"out/add.bundle\"]\n"
        "[gpu]\nmemory = \"1.5G\"\nlaunch_mode = \"model\"\nmemory_mode = \"vmm\"\nworking_set = "
        "\"touched\"\ncheckpoint = "
        "true\nruntime = \"own\"\ndomain = \"vision\"\nshare = 40\n[cpu]\nhandler = "
        "\"app.on_cpu\"\ngpu_speedup = 7.5\n[environment]\nA = \"b\"\n");
  write("code/app.py", "def handler(event, context): return event\n");
  write("out/add.bundle", "bundle");
  transport.answer(response(201, R"({"action":"created","configuration":{}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("line 8: no key 'max_concurency'; did you mean "
                                   "'max_concurrency'?"));
  EXPECT_THAT(out.str(), HasSubstr("created hello ("));
  ASSERT_EQ(transport.requests.size(), 1u);
  EXPECT_EQ(transport.requests[0].target, "/v1/functions/hello");
  const auto parts = parts_of(transport.requests[0]);
  const Json sent = Json::parse(parts.at("settings"));
  EXPECT_EQ(sent["FunctionName"], "hello");
  EXPECT_EQ(sent["Timeout"], 12);
  EXPECT_EQ(sent["MemorySize"], 256);
  EXPECT_EQ(sent["Environment"]["Variables"]["A"], "b");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-memory"], "1536MiB");
  EXPECT_EQ(sent["Tags"]["lambent:launch-mode"], "model");
  EXPECT_EQ(sent["Tags"]["lambent:memory-mode"], "vmm");
  EXPECT_EQ(sent["Tags"]["lambent:working-set"], "touched");
  EXPECT_EQ(sent["Tags"]["lambent:checkpoint"], "true");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-runtime"], "own");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-domain"], "vision");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-share"], "40");
  EXPECT_EQ(sent["Tags"]["lambent:cpu-variant"], "true");
  EXPECT_EQ(sent["Tags"]["lambent:cpu-handler"], "app.on_cpu");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-speedup"], "7.5");
  EXPECT_EQ(sent["Tags"]["lambent:weight"], "2.5");
  EXPECT_THAT(parts.at("code"), HasSubstr("bundles/add.bundle"));
  EXPECT_THAT(parts.at("code"), HasSubstr("app.py"));
}

TEST_F(Deploy, WarnsOfReferencesWithinATextOfAWorkflow) {
  write("lambent.toml",
        "name = \"w\"\nkind = \"workflow\"\noutput = {said = \"$a\", sum = \"it is $input.x\"}\n"
        "[[component]]\nname = \"a\"\nfunction = \"f\"\n"
        "input = {text = \"at $input.x\", price = \"$$5 for $item\", x = \"$input.x\", y = \"5 "
        "$\"}\n");
  const auto package = make_package({.path = folder});
  ASSERT_TRUE(package.ok()) << to_string(package.error());
  EXPECT_THAT(package->manifest.warnings,
              testing::ElementsAre(
                  HasSubstr("lambent.toml: components[0].input.text: 'at $input.x' is taken as it "
                            "stands: a reference such as $input stands alone"),
                  HasSubstr("output.sum: 'it is $input.x'")));
}

TEST_F(Deploy, SendsTheSameCodeWhateverTheManifestBesideItSays) {
  write("app.py", "def handler(event, context): return event\n");
  write("data/lambent.toml", "name = \"part of the code\"\n");
  std::vector<std::string> sent;
  for (const char* share : {"40", "60"}) {
    write("lambent.toml", std::string("name = \"hello\"\nruntime = \"python3\"\nhandler = "
                                      "\"app.handler\"\n[gpu]\nshare = ") +
                              share + "\n");
    const auto package = make_package({.path = folder});
    ASSERT_TRUE(package.ok()) << to_string(package.error());
    sent.push_back(package->zip);
  }
  EXPECT_EQ(sent[0], sent[1]);
  EXPECT_THAT(sent[0], HasSubstr("data/lambent.toml"));
}

TEST_F(Deploy, SaysOfAFileThatIsNoManifestWhatCanBeDeployed) {
  for (const auto& [name, hint] : std::map<std::string, std::string>{
           {"weights.pt", "a model (.onnx)"},
           {"shop.py", "lambent.App are deployed by 'lambent deploy"},
           {"code.zip", "--code"},
       }) {
    write(name, "x");
    const auto package = make_package({.path = folder / name});
    ASSERT_FALSE(package.ok()) << name;
    EXPECT_EQ(package.error().code, ErrorCode::kInvalidArgument) << name;
    EXPECT_THAT(package.error().message, HasSubstr(hint));
  }
}

TEST_F(Deploy, SendsTheSameCodeWhateverPythonCompiledBesideIt) {
  write("lambent.toml", "name = \"hello\"\nruntime = \"python3\"\nhandler = \"app.handler\"\n");
  write("app.py", "def handler(event, context): return event\n");
  write("part/module.py", "x = 1\n");
  const auto before = make_package({.path = folder});
  ASSERT_TRUE(before.ok()) << to_string(before.error());
  write("__pycache__/app.cpython-311.pyc", "compiled");
  write("part/__pycache__/module.cpython-311.pyc", "compiled");
  const auto after = make_package({.path = folder});
  ASSERT_TRUE(after.ok()) << to_string(after.error());
  EXPECT_EQ(before->zip, after->zip);
}

TEST_F(Deploy, PutsTheManifestsSloIntoWhatThePipelineSaysOfItself) {
  const std::string manifest = "name = \"app\"\nkind = \"pipeline\"\ncode = \"code\"\n";
  const std::string pipeline =
      R"({"pipeline": 1, "handler": "app.App", "inputs": ["image"], "outputs": ["classify"],
          "components": [{"name": "classify", "inputs": ["$image"]}], "slo": {"ms": 200}})";
  int packages = 0;
  const auto deployed_slo = [&](const std::string& slo) -> Json {
    write("lambent.toml", manifest + slo);
    const auto package = make_package({.path = folder});
    if (!package.ok()) return package.error().message;
    const std::string unpacked = folder / ("unpacked-" + std::to_string(++packages));
    EXPECT_TRUE(archive::unpack_zip(package->zip, unpacked).ok());
    return Json::parse(read_file(unpacked + "/pipeline.json", 1 << 20).value())["slo"];
  };
  write("code/pipeline.json", pipeline);
  EXPECT_EQ(deployed_slo(""), Json({{"ms", 200}})) << "its own";
  EXPECT_EQ(deployed_slo("[slo]\nscale = 1.5\n"), Json({{"scale", 1.5}}));
  EXPECT_EQ(deployed_slo("[slo]\nms = 35\n"), Json({{"ms", 35}}));
  const auto complaint = [&](const std::string& slo) { return deployed_slo(slo).dump(); };
  EXPECT_THAT(complaint("[slo]\nms = 35\nscale = 2\n"), HasSubstr("line 4: [slo] has either ms"));
  EXPECT_THAT(complaint("[slo]\n"), HasSubstr("[slo] has either ms"));
  EXPECT_THAT(complaint("[slo]\nms = 0\n"),
              HasSubstr("slo.ms is more than 0 and at most 86400000"));
  EXPECT_THAT(complaint("[slo]\nscale = nan\n"), HasSubstr("slo.scale is more than 0"));
  EXPECT_THAT(complaint("slo = 200\n"), HasSubstr("line 4: slo must be a table"));
  EXPECT_THAT(complaint("code2 = \"\"\n[slo]\nms = \"1s\"\n"),
              HasSubstr("slo.ms must be a number"));
  // A package that is a zip already is packed again.
  write("code.zip", archive::make_zip(folder / "code").value());
  const std::string zipped = "name = \"app\"\nkind = \"pipeline\"\ncode = \"code.zip\"\n";
  write("lambent.toml", zipped + "[slo]\nms = 35\n");
  const auto repacked = make_package({.path = folder});
  ASSERT_TRUE(repacked.ok()) << to_string(repacked.error());
  ASSERT_TRUE(archive::unpack_zip(repacked->zip, folder / "repacked").ok());
  const auto repacked_json =
      Json::parse(read_file(folder / "repacked/pipeline.json", 1 << 20).value());
  EXPECT_EQ(repacked_json["slo"], Json({{"ms", 35}}));
  write("code.zip", "no zip");
  EXPECT_THAT(make_package({.path = folder}).error().message, HasSubstr("code.zip: "));
  write("code/pipeline.json", "{}");
  EXPECT_THAT(complaint("[slo]\nms = 35\n"), HasSubstr("pipeline.json: "))
      << "told before it is sent";
  write("lambent.toml", "name = \"hello\"\nhandler = \"app.handler\"\n[slo]\nms = 35\n");
  EXPECT_THAT(make_package({.path = folder}).error().message,
              HasSubstr("a function of kind 'handler' has no slo"));
}

TEST_F(Deploy, OfAFunctionThatExistsSaysWhatItDid) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  transport.answer(
      response(200, R"({"action":"updated","changes":[],"revision":4,"configuration":{}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("updated hello ("));
  transport.answer(response(200, R"({"action":"unchanged","revision":4,"configuration":{}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("unchanged hello, at revision 4"));
  EXPECT_EQ(transport.requests.size(), 2u) << "one call each";
}

TEST_F(Deploy, OfAFunctionThatWasOfAnotherKindWarns) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  const std::string answer = R"({"action":"updated","changes":[],"revision":4,"configuration":{},
                                 "kind_change":{"from":"model","to":"handler"}})";
  transport.answer(response(200, answer));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(err.str(),
              HasSubstr("lambent: warning: hello was of kind model and is now of kind handler; "
                        "'lambent rollback hello' brings the former one back\n"));
  console.json = true;
  out.str("");
  transport.answer(response(200, answer));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder, .dry_run = true}), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("was of kind model and would become of kind handler"));
  EXPECT_EQ(Json::parse(out.str())["kind_change"]["from"], "model");
}

TEST_F(Deploy, InADryRunSaysWhatWouldChange) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  transport.answer(response(200, R"({"action":"updated","dry_run":true,"revision":4,"changes":[
      {"field":"memory_bytes","from":1,"to":2},{"field":"environment.A","from":null,"to":"***"}],
      "configuration":{}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder, .dry_run = true}), 0) << err.str();
  EXPECT_EQ(out.str(),
            "would be updated hello\n  memory_bytes: 1 -> 2\n  environment.A: - -> ***\n");
  EXPECT_EQ(transport.requests[0].target, "/v1/functions/hello?dry_run=1");
}

TEST_F(Deploy, SendsALargePackageOnlyToAWorkerThatLacksIt) {
  write("lambent.toml", "name = \"hello\"\n");
  std::string noise;
  SeededRandom random(1);
  while (noise.size() < 100'000) noise += static_cast<char>(random.next());
  write("bootstrap", noise);
  transport.answer(response(200, R"({"action":"updated","configuration":{}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  ASSERT_EQ(transport.requests.size(), 1u);
  EXPECT_THAT(transport.requests[0].target, HasSubstr("?code_sha256="));
  EXPECT_EQ(parts_of(transport.requests[0]).count("code"), 0u);
  EXPECT_THAT(out.str(), HasSubstr("of which the worker has all"));

  transport.answer(response(412, R"({"error":{"code":"FAILED_PRECONDITION","message":
      "the worker does not have this code; send it as the part 'code'"}})"));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no function"}})"));
  transport.answer(response(201, R"({"action":"created","configuration":{}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  ASSERT_EQ(transport.requests.size(), 4u);
  EXPECT_EQ(transport.requests[2].target, "/v1/functions/hello/code/parts");
  EXPECT_GT(parts_of(transport.requests[3]).at("code").size(), 100'000u);
}

TEST_F(Deploy, SendsOfALargePackageWhatTheWorkerLacks) {
  write("lambent.toml", "name = \"hello\"\n");
  std::string noise;
  SeededRandom random(1);
  while (noise.size() < 100'000) noise += static_cast<char>(random.next());
  write("data", noise);
  write("bootstrap", "#!/bin/sh\n");
  const std::string before = *archive::make_zip(folder.string(), {}, "lambent.toml");
  write("bootstrap", "#!/bin/sh\nexec true\n");
  Json parts = Json::array();
  const std::vector<CodePart> parts_before = *archive::code_parts_of(before);
  for (const CodePart& part : parts_before) {
    parts.push_back({{"sha256", part.sha256}, {"bytes", part.size.count}});
  }
  const std::string lacking = R"({"error":{"code":"FAILED_PRECONDITION","message":
      "the worker does not have this code; send it as the part 'code'"}})";
  const Json kept = {{"code_sha256", archive::code_sha256(before)}, {"parts", parts}};
  transport.answer(response(412, lacking));
  transport.answer(response(200, kept.dump()));
  transport.answer(response(200, R"({"action":"updated","configuration":{}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  ASSERT_EQ(transport.requests.size(), 3u);
  EXPECT_THAT(transport.requests[2].target, HasSubstr("&base_sha256="));
  const std::string delta = parts_of(transport.requests[2]).at("delta");
  EXPECT_LT(delta.size(), 1000u);
  const std::string made = archive::apply_code_delta(before, delta).value();
  EXPECT_THAT(transport.requests[2].target,
              HasSubstr(http::percent_encode(archive::code_sha256(made))));
  EXPECT_THAT(out.str(), HasSubstr("were sent"));

  // One that has other code by now, and one that tells what cannot be, get all of it.
  for (const std::string& told : {kept.dump(), std::string(R"({"parts":[{"sha256":1}]})"),
                                  std::string("[]"), std::string(R"({"parts":3})")}) {
    transport.requests.clear();
    transport.answer(response(412, lacking));
    transport.answer(response(200, told));
    if (told == kept.dump()) transport.answer(response(412, lacking));
    transport.answer(response(200, R"({"action":"updated","configuration":{}})"));
    EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
    EXPECT_EQ(parts_of(transport.requests.back()).count("code"), 1u) << told;
  }
}

TEST_F(Deploy, PrintsWhatTheWorkerWarnsOf) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  transport.answer(response(201, R"({"action":"created","configuration":{"State":"Pending"}})"));
  transport.answer(response(200, R"({"State":"Active","StateReason":"no CUDA here"})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("lambent: warning: hello: no CUDA here\n"));
}

TEST_F(Deploy, WaitsUnlessToldOtherwise) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  const std::string pending = R"({"State":"Pending","StateReason":"installing"})";
  transport.answer(response(201, R"({"action":"created","configuration":)" + pending + "}"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder, .waits = false}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("once its packages are installed"));
  EXPECT_EQ(transport.requests.size(), 1u);
  transport.answer(response(201, R"({"action":"created","configuration":)" + pending + "}"));
  transport.answer(response(200, R"({"State":"Failed","StateReason":"no such package",
      "StateReasonCode":"INVALID_ARGUMENT"})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}),
            exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_THAT(err.str(), HasSubstr("no such package"));
}

TEST_F(Deploy, ChangesNothingWhereTheWorkerSaysThatItCannotTakeIt) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  transport.answer(response(412, R"({"error":{"code":"FAILED_PRECONDITION","message":
      "no devices for pipelines here"}})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}),
            exit_code_of(ErrorCode::kFailedPrecondition));
  EXPECT_THAT(err.str(),
              HasSubstr("FAILED_PRECONDITION: deploying hello: no devices for pipelines here"));
  EXPECT_EQ(transport.requests.size(), 1u);
}

constexpr const char* kWorkflow =
    "name = \"traffic\"\nkind = \"workflow\"\n"
    "output = {faces = \"$faces\", price = \"$$5\", n = [1, 2.5, true]}\n"
    "[[component]]\nname = \"detect\"\npackage = \"detector\"\ninput = {image = \"$input\"}\n"
    "[[component]]\nname = \"faces\"\nfunction = \"face\"\nfor_each = \"$detect\"\n"
    "when = {ref = \"$item.score\", op = \">\", value = 0.5}\nidempotent = true\n"
    "[[component]]\nname = \"again\"\npackage = \"./detector\"\n"
    "[[component]]\nname = \"other\"\npackage = \"detector\"\nfunction = \"named\"\n";

TEST_F(Deploy, AWorkflowsTablesBecomeItsGraphAndItsPackagesComeFirst) {
  write("lambent.toml", kWorkflow);
  write("detector/lambent.toml", "name = \"detector\"\n");
  write("detector/bootstrap", "#!/bin/sh\n");
  for (int i = 0; i < 3; ++i) transport.answer(response(201, R"({"action":"created"})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(out.str(), AllOf(HasSubstr("created detector ("), HasSubstr("created named ("),
                               HasSubstr("created traffic (")));
  ASSERT_EQ(transport.requests.size(), 3u);
  EXPECT_EQ(transport.requests[0].target, "/v1/functions/detector");
  EXPECT_EQ(transport.requests[1].target, "/v1/functions/named");
  const auto parts = parts_of(transport.requests[2]);
  const Json sent = Json::parse(parts.at("settings"));
  EXPECT_EQ(sent["FunctionName"], "traffic");
  EXPECT_EQ(sent["Handler"], "workflow.json");
  EXPECT_EQ(sent["Tags"]["lambent:kind"], "workflow");
  ASSERT_TRUE(archive::unpack_zip(parts.at("code"), folder / "unpacked").ok());
  const Json graph = Json::parse(*read_file(folder / "unpacked/workflow.json", 1 << 20));
  const Json expected = Json::parse(R"({"components": [
      {"name": "detect", "input": {"image": "$input"}, "function": "detector"},
      {"name": "faces", "function": "face", "for_each": "$detect",
       "when": {"ref": "$item.score", "op": ">", "value": 0.5}, "idempotent": true},
      {"name": "again", "function": "detector"},
      {"name": "other", "function": "named"}],
    "output": {"faces": "$faces", "price": "$$5", "n": [1, 2.5, true]}})");
  EXPECT_EQ(nlohmann::json(graph), nlohmann::json(expected));
}

TEST_F(Deploy, AWorkflowMayBringItsGraphAsAFile) {
  write("lambent.toml", "name = \"w\"\nkind = \"workflow\"\ngraph = \"mine.json\"\n");
  write("mine.json", "{}");
  transport.answer(response(201, R"({"action":"created"})"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_EQ(Json::parse(parts_of(transport.requests.at(0)).at("settings"))["Handler"], "mine.json");
}

TEST_F(Deploy, PackagesOfOneNameDoNotReplaceEachOther) {
  const std::string one = "[[component]]\nname = \"a\"\npackage = \"one\"\n";
  const std::string two = "[[component]]\nname = \"b\"\npackage = \"two\"\n";
  for (const char* package : {"one", "two"}) {
    write(std::string(package) + "/lambent.toml", "name = \"step\"\n");
    write(std::string(package) + "/bootstrap", "#!/bin/sh\n");
  }
  write("lambent.toml", "name = \"w\"\nkind = \"workflow\"\n" + one + two);
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13);
  EXPECT_THAT(err.str(), HasSubstr("both describe a function 'step'"));
  write("lambent.toml", "name = \"step\"\nkind = \"workflow\"\n" + one);
  err.str("");
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13);
  EXPECT_THAT(err.str(), HasSubstr("both describe a function 'step'"));
  EXPECT_TRUE(transport.requests.empty());
}

TEST_F(Deploy, SaysWhatIsWrongWithAWorkflow) {
  const auto complaint = [&](const std::string& text) {
    write("lambent.toml", "name = \"w\"\nkind = \"workflow\"\n" + text);
    err.str("");
    EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13) << text;
    return err.str();
  };
  const std::string part = "[[component]]\nname = \"a\"\nfunction = \"f\"\n";
  EXPECT_THAT(complaint(part + "input = \"$b\"\n"),
              HasSubstr("lambent.toml: components[0].input: '$b': there is no component 'b'"));
  EXPECT_THAT(complaint(part + "foreach = \"$input\"\n"),
              HasSubstr("components[0]: there is no 'foreach' here; did you mean 'for_each'?"));
  EXPECT_THAT(complaint("[[component]]\nname = \"a\"\n"),
              HasSubstr("components[0]: 'function' is missing"));
  EXPECT_THAT(complaint(part + "input = 1979-05-27\n"), HasSubstr("line 6: dates, times"));
  EXPECT_THAT(complaint("component = 3\n"), HasSubstr("line 3: components are written as tables"));
  EXPECT_THAT(complaint("graph = \"x\"\n" + part), HasSubstr("line 3: graph is for workflows"));
  EXPECT_THAT(complaint("output = \"$a\"\n"), HasSubstr("line 3: output belongs to"));
  EXPECT_THAT(complaint("handler = \"a.b\"\n" + part),
              HasSubstr("line 3: a function of kind 'workflow' has no handler"));
  EXPECT_THAT(complaint(part + "package = \".\"\n"),
              HasSubstr("packages lie more than 8 deep in each other"));
  EXPECT_TRUE(transport.requests.empty());
}

TEST_F(Deploy, SaysWhatIsWrongWithAManifest) {
  const auto complaint = [&](std::string_view text) {
    write("lambent.toml", text);
    err.str("");
    EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13) << text;
    return err.str();
  };
  EXPECT_THAT(complaint("name = \n"), HasSubstr("lambent.toml line 1, column"));
  EXPECT_THAT(complaint("name = 3\n"), HasSubstr("line 1: name must be text in quotes"));
  EXPECT_THAT(complaint("handler = \"x\"\n"), HasSubstr("has no name"));
  EXPECT_THAT(complaint("name = \"f\"\ntimeout_s = 0\n"), HasSubstr("timeout"));
  EXPECT_THAT(complaint("name = \"f\"\nruntime = \"ruby\"\n"), HasSubstr("runtime is 'ruby'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nlaunch_mode = \"fast\"\n"),
              HasSubstr("line 3: gpu.launch_mode is 'fast'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nmemory_mode = \"swap\"\n"),
              HasSubstr("line 3: gpu.memory_mode is 'swap'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nworking_set = \"all\"\n"),
              HasSubstr("line 3: gpu.working_set is 'all'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\ncheckpoint = 1\n"),
              HasSubstr("line 3: gpu.checkpoint must be true or false"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nmemory = \"lots\"\n"), HasSubstr("gpu.memory"));
  EXPECT_TRUE(transport.requests.empty());
  std::filesystem::remove(folder / "lambent.toml");
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 15);
}

TEST(DeploymentState, IsReadFromWhatTheWorkerAnswers) {
  EXPECT_FALSE(read_deployment_state("no JSON").under_way);
  EXPECT_FALSE(
      read_deployment_state(R"({"State":"Active","LastUpdateStatus":"Successful"})").under_way);
  const auto pending = read_deployment_state(R"({"State":"Pending","StateReason":"compiling"})");
  EXPECT_TRUE(pending.under_way);
  EXPECT_EQ(pending.reason, "compiling");
  const auto failed = read_deployment_state(
      R"({"State":"Active","LastUpdateStatus":"Failed","LastUpdateStatusReason":"no numpy 99",)"
      R"("LastUpdateStatusReasonCode":"INVALID_ARGUMENT"})");
  EXPECT_EQ(failed.failure, (Error{ErrorCode::kInvalidArgument, "no numpy 99"}));
}

}  // namespace
}  // namespace lambent::cli
