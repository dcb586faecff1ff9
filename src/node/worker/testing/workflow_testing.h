// What the tests of WorkflowHost stand on: a host whose calls the test sees, and ends.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/log.h"
#include "core/base/sealed_memory.h"
#include "decide/workflow/graph_json.h"
#include "node/worker/workflow_host.h"

namespace lambent::worker {

// Workflows whose functions are the test: it sees each call and ends it.
class WorkflowHostTest : public ::testing::Test {
 protected:
  struct Call {
    InvocationRequest request;
    WorkflowHost::Done done;
  };

  void SetUp() override { make_host({}); }
  void make_host(WorkflowHost::Limits limits) {
    WorkflowHost::Events events;
    events.submit = [this](InvocationRequest request, WorkflowHost::Done done) {
      const auto found = specs.find(request.function.name);
      if (found == specs.end()) {
        return done(
            Error{ErrorCode::kNotFound, "function '" + request.function.name + "' does not exist"});
      }
      if (found->second.kind == FunctionKind::kWorkflow) {
        inner_done[request.id] = std::move(done);
        return host->start(request, found->second);
      }
      if (immediate) return done(succeeded(request.id, request.payload));
      calls.push_back({std::move(request), std::move(done)});
    };
    events.submit_kernel = [this, submit = events.submit](
                               const FunctionSpec&, InvocationRequest request, uint64_t elements,
                               bool by_value, WorkflowHost::Done done) {
      brought.emplace_back(elements, by_value);
      submit(std::move(request), std::move(done));
    };
    events.forget = [this](InvocationId id) { forgotten.insert(id); };
    events.find_function = [this](const FunctionName& name) {
      const auto found = specs.find(name.name);
      return found != specs.end() ? &found->second : nullptr;
    };
    events.stopping = [this] { return stopping; };
    events.elsewhere = &elsewhere;
    events.has_room = [this](const FunctionName& name, Bytes) { return !full.contains(name.name); };
    events.on_end = [this](InvocationResult end) {
      const auto inner = inner_done.find(end.id);
      if (inner == inner_done.end()) return ends.push_back(std::move(end));
      const auto done = std::move(inner->second);
      inner_done.erase(inner);
      done(std::move(end));
    };
    events.on_output = [this](FunctionId, std::string_view text) { output += text; };
    events.prospect_of = [this](const FunctionName& name) {
      const auto found = prospects.find(name.name);
      return found != prospects.end() ? found->second : workflow::Prospect{};
    };
    events.foresee = [this](const FunctionName& name, Duration, double) {
      foreseen.push_back(name.name);
    };
    host = std::make_unique<WorkflowHost>(loop, random, &objects, std::move(events), limits);
  }

  void function(const std::string& name, FunctionKind kind = FunctionKind::kHandler) {
    FunctionSpec& spec = specs[name];
    spec.id = FunctionId(static_cast<uint32_t>(specs.size()));
    spec.name = {kDefaultTenant, name};
    spec.kind = kind;
    spec.timeout = seconds(30);
  }
  void workflow(const std::string& name, const std::string& components,
                const std::string& output = "") {
    function(name, FunctionKind::kWorkflow);
    auto graph = workflow::parse_workflow(R"({"components": [)" + components + "]" +
                                          (output.empty() ? "" : R"(, "output": )" + output) + "}");
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    host->put(specs[name].id, std::make_shared<const workflow::Workflow>(std::move(graph).value()));
  }
  InvocationId start(const std::string& name, const std::string& payload,
                     InvocationKind kind = InvocationKind::kSynchronous) {
    InvocationRequest request;
    request.id = new_invocation_id(random);
    request.function = {kDefaultTenant, name};
    request.payload = payload;
    request.kind = kind;
    host->start(request, specs.at(name));
    return request.id;
  }

  static InvocationResult succeeded(InvocationId id, std::string payload) {
    InvocationResult result;
    result.id = id;
    result.payload = std::move(payload);
    return result;
  }
  void end(size_t index, InvocationResult result) {
    Call call = std::move(calls.at(index));
    calls.erase(calls.begin() + static_cast<long>(index));
    call.done(std::move(result));
  }
  void answer(size_t index, std::string payload) {
    end(index, succeeded(calls.at(index).request.id, std::move(payload)));
  }
  void fail(size_t index, const std::string& type, bool of_place) {
    InvocationResult result;
    result.id = calls.at(index).request.id;
    result.outcome = Outcome::kFunctionError;
    result.error_type = type;
    result.payload = R"({"errorMessage":"it broke","errorType":")" + type + "\"}";
    if (of_place) result.error = Error{ErrorCode::kInternal, "it broke"};
    end(index, std::move(result));
  }
  // From now on calls of this function are other nodes'.
  void function_of_others(const std::string& name) {
    elsewhere = {.takes = [name](const FunctionSpec& spec) { return spec.name.name == name; },
                 .submit =
                     [this](InvocationRequest request, WorkflowHost::Done done) {
                       calls_elsewhere.push_back({std::move(request), std::move(done)});
                     },
                 .forget = [this](InvocationId id) { forgotten_elsewhere.insert(id); },
                 .remove_object = [this](TenantId, ObjectId id) { removed_elsewhere.insert(id); }};
  }
  // An object that this call makes.
  std::string make_object(size_t index, uint32_t number) {
    const ObjectId id{calls.at(index).request.id, number};
    EXPECT_TRUE(
        objects.store(kDefaultTenant, id, raw_tensor(Bytes(4)), *sealed_memory("abcd")).ok());
    return to_string(id);
  }
  // Until nothing more comes by itself.
  void drain() {
    for (int i = 0; i < 2000 && host->live() > 0; ++i) loop.run_once(Duration(0));
  }
  size_t objects_left() const { return objects.list(kDefaultTenant, std::nullopt, 100).size(); }

  FakeClock clock;
  loop::EventLoop loop{clock};
  SeededRandom random{7};
  NullLogSink log;
  objects::ObjectStore objects{loop, log, [](auto, auto) { return false; }, {}};
  std::map<std::string, FunctionSpec> specs;
  std::map<InvocationId, WorkflowHost::Done> inner_done;
  CallsElsewhere elsewhere;
  std::vector<Call> calls, calls_elsewhere;
  // By calls of kernel functions: how many elements, and whether their outputs come by value.
  std::vector<std::pair<uint64_t, bool>> brought;
  std::set<InvocationId> forgotten_elsewhere;
  std::set<ObjectId> removed_elsewhere;
  std::set<InvocationId> forgotten;
  std::vector<InvocationResult> ends;
  std::string output;
  bool immediate = false;
  bool stopping = false;
  std::map<std::string, workflow::Prospect> prospects;  // of functions, by name
  std::vector<std::string> foreseen;                    // that were told of
  std::set<std::string> full;  // functions for whose calls there is no room
  std::unique_ptr<WorkflowHost> host;
};

}  // namespace lambent::worker
