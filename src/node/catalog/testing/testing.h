// What the catalog's tests share: a folder that goes away, a loop that runs when told, and samples.
// Included by tests only; one thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/testing/testing.h"
#include "node/catalog/catalog.h"

namespace lambent::catalog {

// Stands for the loop: keeps posted tasks until the test thread runs them.
class TestLoop {
 public:
  Catalog::Post post() {
    return [this](Catalog::Task task) {
      const std::lock_guard lock(mutex_);
      if (refusals_ > 0) {
        --refusals_;
        return false;
      }
      tasks_.push_back(std::move(task));
      ready_.notify_one();
      return true;
    };
  }
  void refuse_next(int posts) {
    const std::lock_guard lock(mutex_);
    refusals_ = posts;
  }
  void run_one() {
    Catalog::Task task;
    {
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(ready_.wait_for(lock, std::chrono::seconds(30), [&] { return !tasks_.empty(); }));
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
  // Starts something that takes a `done` and runs tasks until it was called.
  template <typename T>
  Result<T> await(const std::function<void(Catalog::Done<T>)>& start) {
    std::optional<Result<T>> answer;
    start([&](Result<T> result) { answer = std::move(result); });
    while (!answer.has_value() && !::testing::Test::HasFatalFailure()) run_one();
    return answer.value_or(Result<T>(Error{ErrorCode::kUnknown, "no answer"}));
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Catalog::Task> tasks_;
  int refusals_ = 0;
};

inline FunctionSpec sample_function(const std::string& name, TenantId tenant = kDefaultTenant) {
  FunctionSpec spec;
  spec.name = {tenant, name};
  spec.runtime = Runtime::kPython;
  spec.runtime_name = "python3.11";
  spec.handler = "app.handler";
  spec.description = "says hello";
  spec.role = "arn:aws:iam::000000000000:role/any";
  spec.environment = {{"MODE", "fast"}, {"EMPTY", ""}};
  spec.tags = {{"team", "vision"}};
  spec.timeout = seconds(7);
  spec.gpu = {.memory = Bytes::mib(300),
              .memory_mode = MemoryMode::kUvm,
              .working_set = WorkingSet::kTouched,
              .checkpoint = true,
              .launch_mode = GpuNeeds::LaunchMode::kModel,
              .runtime = GpuRuntime::kShared,
              .domain = "vision",
              .share = 40};
  spec.cpu_variant = CpuVariant{"app.on_cpu", 7.5};
  spec.weight = 2.5;
  spec.max_concurrency = 3;
  spec.code_sha256 = "c2hhMjU2";
  spec.code_size = Bytes(1234);
  spec.last_modified = seconds(1'700'000'000);
  return spec;
}

inline AsyncInvocation sample_invocation(uint64_t number, const std::string& payload = "{}",
                                         TenantId tenant = kDefaultTenant) {
  AsyncInvocation invocation;
  invocation.request.id = InvocationId{0x8000000000000000ULL, number};
  invocation.request.function = {tenant, "f"};
  invocation.request.kind = InvocationKind::kAsynchronous;
  invocation.request.payload = payload;
  invocation.submitted_at = seconds(1'700'000'000);
  return invocation;
}

inline InvocationResult sample_result(uint64_t number) {
  InvocationResult result;
  result.id = sample_invocation(number).request.id;
  result.outcome = Outcome::kFunctionError;
  result.payload = std::string("{\"errorMessage\":\"\0\"}", 20);
  result.error_type = "ValueError";
  result.error = Error{ErrorCode::kDeadlineExceeded, "too slow"};
  result.start = StartClass::kGpuCold;
  result.phases = {milliseconds(1), milliseconds(2), milliseconds(3), milliseconds(5),
                   milliseconds(4)};
  result.device = DeviceId(1);
  result.device_memory_peak = Bytes::mib(5);
  result.host_memory_peak = Bytes::mib(6);
  result.log_tail = "line\n";
  result.revision = 9;
  return result;
}

}  // namespace lambent::catalog
