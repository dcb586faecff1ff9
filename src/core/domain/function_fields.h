// The fields of a FunctionSpec, described once: each with its name in every representation. The
// columns of the catalog, the keys of lambent.toml, the tags and both APIs' JSON are visitors of
// this description, so a new field is one line here. A representation differs by a field's type and
// by the names here, and has no list of fields of its own. Pure; any thread.
//
// A visitor is called with a FunctionField and the field of each FunctionSpec that is visited, most
// often one. Its overloads choose by the field's type. The description's order is that of the tags
// and the configuration in a request of `lambent deploy`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/domain/async_limits.h"
#include "core/domain/function.h"
#include "core/domain/function_limits.h"
#include "core/domain/secret.h"

namespace lambent {

// Who gives a field its value.
enum class FieldRole {
  kIdentity,  // given once, when the function is created
  kSetting,   // the function's owner may change it
  kRecord,    // the worker notes it
};

// For a representation that has no such field.
constexpr std::string_view kNone;

// Lambda has its number of MiB in an object, {"Size": 512}.
constexpr std::string_view kEphemeralStorage = "EphemeralStorage";

// The numbers that a field may have, where a representation refuses others itself.
struct FieldRange {
  double least = 0;
  double most = 0;

  constexpr bool is_given() const { return most > 0; }
};
constexpr FieldRange kWeightRange{limits::kLeastWeight, limits::kMostWeight};
constexpr FieldRange kConcurrencyRange{1, limits::kMostConcurrency};
constexpr FieldRange kSandboxConcurrencyRange{1, limits::kMostSandboxConcurrency};
constexpr FieldRange kShareRange{1, 100};  // per cent
constexpr FieldRange kGpuCountRange{1, kMostGpusOfFunction};
constexpr FieldRange kPortRange{1, 65535};
constexpr FieldRange kQueueTimeRange{-1, limits::kMostQueueTimeSeconds};
constexpr FieldRange kInstancesRange{0, limits::kMostInstances};
constexpr FieldRange kAsyncRetriesRange{-1, limits::kMostAsyncRetries};
constexpr FieldRange kAsyncAgeRange{0, limits::kMostEventAgeSeconds};
constexpr FieldRange kCpusRange{0, limits::kMostCpus};
constexpr FieldRange kKeepAliveRange{-1, limits::kMostKeepAliveSeconds};
constexpr FieldRange kSloRange{0, limits::kMostSloMilliseconds};
// Text in the manifest for some kinds, a table for others.
constexpr std::string_view kWarmUpKey = "warm_up";
// A table in the manifest.
constexpr std::string_view kCorsKey = "url.cors";

struct FunctionField {
  // A constructor, so that a field which forgets a representation does not compile.
  constexpr FunctionField(FieldRole whose, std::string_view of_catalog,
                          std::string_view of_manifest, std::string_view of_tags,
                          std::string_view of_lambda, std::string_view of_native,
                          FieldRange allowed = {})
      : role(whose),
        column(of_catalog),
        key(of_manifest),
        tag(of_tags),
        lambda(of_lambda),
        native(of_native),
        range(allowed) {}

  FieldRole role;
  // In the catalog's table `functions`, with the unit. A map is rows of `function_variables`, whose
  // kind this is. Every field has one.
  std::string_view column;
  // In lambent.toml; of a table in it: "gpu.memory".
  std::string_view key;
  // Without its "lambent:". These are the settings for which Lambda has no field.
  std::string_view tag;
  // In Lambda's FunctionConfiguration.
  std::string_view lambda;
  // In the list of functions of our own API (api/openapi.yaml), with the unit.
  std::string_view native;
  FieldRange range;
};

// The fields of a CPU variant that exists. Visitors of a FunctionSpec get an optional<CpuVariant>
// with the name of the field that tells whether there is one, and visit these from there.
template <typename Visitor, typename... Variants>
void visit_cpu_variant(Visitor& visit, Variants&... variants) {
  using enum FieldRole;
  // column, key, tag, Lambda, our own API
  visit({kSetting, "cpu_handler", "cpu.handler", "cpu-handler", kNone, "cpu_variant.handler"},
        variants.handler...);
  visit(
      {kSetting, "gpu_speedup", "cpu.gpu_speedup", "gpu-speedup", kNone, "cpu_variant.gpu_speedup"},
      variants.gpu_speedup...);
}

// The fields of GpuNeeds.
template <typename Visitor, typename... Needs>
void visit_gpu_needs(Visitor& visit, Needs&... gpus) {
  using enum FieldRole;
  // column, key, tag, Lambda, our own API
  visit({kSetting, "gpu_memory_bytes", "gpu.memory", "gpu-memory", kNone, "gpu_memory_bytes"},
        gpus.memory...);
  visit({kSetting, "gpu_count", "gpu.count", "gpu-count", kNone, "gpu_count", kGpuCountRange},
        gpus.count...);
  visit({kSetting, "gpu_launch_mode", "gpu.launch_mode", "launch-mode", kNone, "launch_mode"},
        gpus.launch_mode...);
  visit({kSetting, "gpu_memory_mode", "gpu.memory_mode", "memory-mode", kNone, "memory_mode"},
        gpus.memory_mode...);
  visit({kSetting, "gpu_working_set", "gpu.working_set", "working-set", kNone, "working_set"},
        gpus.working_set...);
  visit({kSetting, "gpu_checkpoint", "gpu.checkpoint", "checkpoint", kNone, "checkpoint"},
        gpus.checkpoint...);
  visit({kSetting, "gpu_runtime", "gpu.runtime", "gpu-runtime", kNone, "gpu_runtime"},
        gpus.runtime...);
  visit({kSetting, "gpu_domain", "gpu.domain", "gpu-domain", kNone, "gpu_domain"}, gpus.domain...);
  visit({kSetting, "gpu_share", "gpu.share", "gpu-share", kNone, "gpu_share", kShareRange},
        gpus.share...);
}

// The fields of an HttpContract.
template <typename Visitor, typename... Contracts>
void visit_http_contract(Visitor& visit, Contracts&... contracts) {
  using enum FieldRole;
  // column, key, tag, Lambda, our own API
  visit({kSetting, "http_port", "port", "http-port", kNone, "http_port", kPortRange},
        contracts.port...);
  visit({kSetting, "http_readiness", "readiness", "http-readiness", kNone, "http_readiness"},
        contracts.readiness...);
  visit({kSetting, "http_concurrency", "concurrency", "http-concurrency", kNone, "http_concurrency",
         kSandboxConcurrencyRange},
        contracts.concurrency...);
}

// The fields of a FunctionUrl.
template <typename Visitor, typename... Urls>
void visit_function_url(Visitor& visit, Urls&... urls) {
  using enum FieldRole;
  // column, key, tag, Lambda, our own API
  visit({kSetting, "url_auth", "url.auth", "url-auth", kNone, "url_auth"}, urls.auth...);
  visit(
      {kSetting, "url_invoke_mode", "url.invoke_mode", "url-invoke-mode", kNone, "url_invoke_mode"},
      urls.invoke_mode...);
  visit({kSetting, "url_cors", kCorsKey, "url-cors", kNone, "url_cors"}, urls.cors...);
}

// The fields of AsyncSettings.
template <typename Visitor, typename... Settings>
void visit_async_settings(Visitor& visit, Settings&... settings) {
  using enum FieldRole;
  // column, key, tag, Lambda, our own API
  visit({kSetting, "async_retries", "asynchronous.retries", "async-retries", kNone, "async_retries",
         kAsyncRetriesRange},
        settings.retries...);
  visit({kSetting, "async_max_age_s", "asynchronous.max_age_s", "async-max-age", kNone,
         "async_max_age_seconds", kAsyncAgeRange},
        settings.max_age_s...);
  visit({kSetting, "async_on_success", "asynchronous.on_success", "async-on-success", kNone,
         "async_on_success"},
        settings.on_success...);
  visit({kSetting, "async_on_failure", "asynchronous.on_failure", "async-on-failure", kNone,
         "async_on_failure"},
        settings.on_failure...);
}

template <typename Visitor, typename... Specs>
void visit_fields(Visitor& visit, Specs&... specs) {
  using enum FieldRole;
  // column, key, tag, Lambda, our own API
  visit({kIdentity, "id", kNone, kNone, kNone, kNone}, specs.id...);
  visit({kIdentity, "tenant", kNone, kNone, kNone, kNone}, specs.name.tenant...);
  visit({kIdentity, "name", "name", kNone, "FunctionName", "name"}, specs.name.name...);
  visit({kRecord, "revision", kNone, kNone, kNone, "revision"}, specs.revision...);
  visit({kSetting, "kind", "kind", "kind", kNone, "kind"}, specs.kind...);
  // The runtime follows from its name.
  visit({kRecord, "runtime", kNone, kNone, kNone, kNone}, specs.runtime...);
  visit({kSetting, "runtime_name", "runtime", kNone, "Runtime", "runtime"}, specs.runtime_name...);
  visit({kSetting, "role", "role", kNone, "Role", kNone}, specs.role...);
  visit({kSetting, "handler", "handler", kNone, "Handler", "handler"}, specs.handler...);
  visit({kSetting, "description", "description", kNone, "Description", kNone},
        specs.description...);
  visit({kSetting, "timeout_ns", "timeout_s", kNone, "Timeout", "timeout_seconds"},
        specs.timeout...);
  visit({kSetting, "memory_bytes", "memory", kNone, "MemorySize", "memory_bytes"}, specs.memory...);
  visit({kSetting, "cpus", "cpus", "cpus", kNone, "cpus", kCpusRange}, specs.cpus...);
  visit({kSetting, "scratch_bytes", "scratch", kNone, kEphemeralStorage, "scratch_bytes"},
        specs.scratch...);
  visit({kSetting, "shared_memory_bytes", "shared_memory", "shared-memory", kNone,
         "shared_memory_bytes"},
        specs.shared_memory...);
  visit({kSetting, "mounts", "mounts", "mounts", kNone, "mounts"}, specs.mounts...);
  visit({kSetting, "network", "network", "network", kNone, "network"}, specs.network...);
  visit({kSetting, "environment", "environment", kNone, "Environment", kNone},
        specs.environment...);
  // Lambda has calls of their own for tags.
  visit({kSetting, "tag", "tags", kNone, kNone, kNone}, specs.tags...);
  visit_gpu_needs(visit, specs.gpu...);
  visit({kSetting, "cpu_variant", "cpu", "cpu-variant", kNone, "cpu_variant"},
        specs.cpu_variant...);
  visit_http_contract(visit, specs.http...);
  visit_function_url(visit, specs.url...);
  visit({kSetting, "weight", "weight", "weight", kNone, "weight", kWeightRange}, specs.weight...);
  visit({kSetting, "max_concurrency", "max_concurrency", "max-concurrency", kNone,
         "max_concurrency", kConcurrencyRange},
        specs.max_concurrency...);
  visit({kSetting, "max_queue_time_s", "max_queue_time_s", "max-queue-time", kNone,
         "max_queue_time_seconds", kQueueTimeRange},
        specs.max_queue_time_s...);
  visit({kSetting, "min_instances", "min_instances", "min-instances", kNone, "min_instances",
         kInstancesRange},
        specs.min_instances...);
  visit({kSetting, "slo_ms", "slo_ms", "slo-ms", kNone, "slo_ms", kSloRange}, specs.slo_ms...);
  visit({kSetting, "keep_alive_s", "keep_alive_s", "keep-alive", kNone, "keep_alive_seconds",
         kKeepAliveRange},
        specs.keep_alive_s...);
  visit({kSetting, "warm_up", kWarmUpKey, "warm-up", kNone, "warm_up"}, specs.warm_up...);
  visit({kSetting, "schedules", "schedules", "schedules", kNone, "schedules"}, specs.schedules...);
  visit_async_settings(visit, specs.asynchronous...);
  visit({kRecord, "code_sha256", kNone, kNone, "CodeSha256", "code_sha256"}, specs.code_sha256...);
  visit({kRecord, "code_bytes", kNone, kNone, "CodeSize", "code_bytes"}, specs.code_size...);
  visit({kRecord, "last_modified_ns", kNone, kNone, "LastModified", "last_modified_seconds"},
        specs.last_modified...);
}

}  // namespace lambent
