#include "node/catalog/catalog.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "core/base/fd.h"
#include "node/catalog/async_table.h"
#include "node/catalog/device_table.h"
#include "node/catalog/function_table.h"
#include "node/catalog/group_commit.h"
#include "node/catalog/migrations.h"
#include "node/catalog/tenant_table.h"
#include "node/catalog/version_table.h"

namespace lambent::catalog {
namespace {

constexpr Bytes kPendingPayload = Bytes::mib(64);
constexpr size_t kExpiredAtOnce = 10'000;

// Held as long as the catalog is open: two workers on one database would each believe that they
// own its invocations.
Result<OwnedFd> lock_database(const std::string& path) {
  const std::string lock_path = path + ".lock";
  OwnedFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return error_from_errno("open " + lock_path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kFailedPrecondition,
                 "another worker has " + path +
                     " open; stop it, or give this one a state folder of its own (--state)"};
  }
  return lock;
}

size_t size_of(const FunctionSpec& spec) {
  size_t bytes = sizeof(spec) + spec.description.size() + spec.handler.size() + spec.role.size();
  for (const auto* variables : {&spec.environment, &spec.tags}) {
    for (const auto& [key, value] : *variables) bytes += key.size() + value.size();
  }
  return bytes;
}

size_t size_of(const InvocationRequest& request) {
  return sizeof(request) + request.payload.size() + request.client_context.size() +
         request.content_type.size() + request.trace_id.size() + request.idempotency_key.size();
}

size_t size_of(const InvocationResult& result) {
  return sizeof(result) + result.payload.size() + result.log_tail.size();
}

// What tenants' asynchronous invocations take. Of the loop thread.
using AsyncBytes = std::map<TenantId, Bytes>;

// With what the tenant's take afterwards.
struct KeptAsync {
  InvocationId id;
  Bytes bytes;
};

struct ExpiredResults {
  uint64_t count = 0;
  std::optional<AsyncBytes> bytes = {};  // of all tenants, if they changed
};

}  // namespace

struct Catalog::State {
  OwnedFd lock;
  std::unique_ptr<GroupCommit> writer;
  FaultPoints* faults = nullptr;
  SharedCatalog* shared = nullptr;  // null: asynchronous invocations are kept here
  std::function<std::string(TenantId)> tenant_name;
  // Shared with completions, which may outlive the catalog.
  const std::shared_ptr<AsyncBytes> async_bytes = std::make_shared<AsyncBytes>();

  bool is_shared(const InvocationRequest& request) const {
    return shared != nullptr && request.needs.empty();
  }

  // Committed, and `done` was not told.
  template <typename T>
  Done<T> reaching(FaultPoint point, Done<T> done) const {
    if (faults == nullptr) return done;
    return [faults = faults, point, done = std::move(done)](Result<T> outcome) {
      if (outcome.ok()) faults->reach(point);
      done(std::move(outcome));
    };
  }

  // Of what may be in either: what the shared catalog does not have is asked for here.
  template <typename T>
  Done<T> or_else(Done<T> done, std::function<void(Done<T>)> here) {
    return [done = std::move(done), here = std::move(here)](Result<T> there) {
      if (there.ok() || there.error().code != ErrorCode::kNotFound) return done(std::move(there));
      here(done);
    };
  }
};

Result<std::unique_ptr<Catalog>> Catalog::open(const std::string& path, CatalogOptions options,
                                               Post post) {
  auto state = std::make_unique<State>();
  state->faults = options.faults;
  ASSIGN_OR_RETURN(state->lock, lock_database(path));
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::open(path));
  RETURN_IF_ERROR(migrate(*database));
  if (options.database_limit > Bytes()) {
    RETURN_IF_ERROR(database->limit_size(options.database_limit));
  }
  const GroupCommitOptions commit{.queue_limit = options.queue_limit,
                                  .queue_bytes = options.queue_bytes.count,
                                  .batch_limit = options.batch_limit,
                                  .on_storage_full = std::move(options.on_storage_full)};
  state->writer = std::make_unique<GroupCommit>(std::move(database), commit, std::move(post));
  return std::unique_ptr<Catalog>(new Catalog(std::move(state)));
}

Catalog::Catalog(std::unique_ptr<State> state) : state_(std::move(state)) {}
Catalog::~Catalog() = default;

Result<Snapshot> Catalog::load_all() {
  Snapshot snapshot;
  RETURN_IF_ERROR(state_->writer->run_and_wait([&](Database& database) -> Result<void> {
    ASSIGN_OR_RETURN(snapshot.functions, load_functions(database));
    ASSIGN_OR_RETURN(snapshot.aliases, load_aliases(database));
    ASSIGN_OR_RETURN(snapshot.revisions, load_revisions(database));
    ASSIGN_OR_RETURN(snapshot.deployments, load_deployments(database));
    ASSIGN_OR_RETURN(snapshot.statistics, load_statistics(database));
    ASSIGN_OR_RETURN(snapshot.gpu_times, load_gpu_times(database));
    ASSIGN_OR_RETURN(snapshot.profiles, load_profiles(database));
    ASSIGN_OR_RETURN(snapshot.firings, load_firings(database));
    ASSIGN_OR_RETURN(snapshot.devices, load_devices(database));
    ASSIGN_OR_RETURN(snapshot.pending, count_pending(database));
    ASSIGN_OR_RETURN(*state_->async_bytes, all_async_bytes(database));
    return {};
  }));
  return snapshot;
}

Result<AccessRecords> Catalog::load_access() {
  AccessRecords records;
  RETURN_IF_ERROR(state_->writer->run_and_wait([&](Database& database) -> Result<void> {
    ASSIGN_OR_RETURN(records.tenants, load_tenants(database));
    ASSIGN_OR_RETURN(records.tokens, load_tokens(database));
    ASSIGN_OR_RETURN(records.secrets, load_secrets(database));
    return {};
  }));
  return records;
}

Result<std::vector<AsyncInvocation>> Catalog::pending_async(uint64_t after_sequence, size_t limit) {
  std::vector<AsyncInvocation> pending;
  RETURN_IF_ERROR(state_->writer->run_and_wait([&](Database& database) -> Result<void> {
    ASSIGN_OR_RETURN(pending, load_pending(database, after_sequence, limit, kPendingPayload));
    return {};
  }));
  return pending;
}

void Catalog::put_function(FunctionSpec spec, Done<FunctionSpec> done, bool keeps_revision) {
  const size_t bytes = size_of(spec);
  state_->writer->ask<FunctionSpec>(
      false, bytes, std::move(done),
      [spec = std::move(spec), keeps_revision](Database& database) -> Result<FunctionSpec> {
        ASSIGN_OR_RETURN(FunctionSpec stored, catalog::put_function(database, spec));
        if (keeps_revision) RETURN_IF_ERROR(keep_revision(database, stored));
        return stored;
      });
}

void Catalog::reserve_function_id(Done<FunctionId> done) {
  state_->writer->ask<FunctionId>(
      false, sizeof(FunctionId), std::move(done),
      [](Database& database) { return catalog::reserve_function_id(database); });
}

void Catalog::publish_version(FunctionSpec spec, std::optional<uint64_t> number,
                              Done<FunctionSpec> done) {
  const size_t bytes = size_of(spec);
  state_->writer->ask<FunctionSpec>(false, bytes, std::move(done),
                                    [spec = std::move(spec), number](Database& database) {
                                      return catalog::publish_version(database, spec, number);
                                    });
}

void Catalog::keep_version(FunctionSpec spec, uint64_t number, Done<FunctionSpec> done) {
  const size_t bytes = size_of(spec);
  state_->writer->ask<FunctionSpec>(false, bytes, std::move(done),
                                    [spec = std::move(spec), number](Database& database) {
                                      return catalog::keep_version(database, spec, number);
                                    });
}

void Catalog::put_alias(Alias alias, Done<void> done) {
  state_->writer->change(sizeof(alias), std::move(done),
                         [alias = std::move(alias)](Database& database) {
                           return catalog::put_alias(database, alias);
                         });
}

void Catalog::remove_alias(Alias alias, Done<void> done) {
  state_->writer->change(sizeof(alias), std::move(done),
                         [alias = std::move(alias)](Database& database) {
                           return catalog::remove_alias(database, alias);
                         });
}

void Catalog::put_deployment(DeploymentRecord record, Done<void> done) {
  const size_t bytes = size_of(record.spec) + record.failure.size();
  state_->writer->change(bytes, std::move(done), [record = std::move(record)](Database& database) {
    return catalog::put_deployment(database, record);
  });
}

void Catalog::remove_deployment(FunctionName name, Done<void> done) {
  state_->writer->change(sizeof(name), std::move(done),
                         [name = std::move(name)](Database& database) {
                           return catalog::remove_deployment(database, name);
                         });
}

void Catalog::remove_function(FunctionName name, Done<void> done) {
  state_->writer->change(sizeof(name), std::move(done),
                         [name = std::move(name)](Database& database) {
                           return catalog::remove_function(database, name);
                         });
}

void Catalog::share_async(SharedCatalog& shared, std::function<std::string(TenantId)> tenant_name) {
  state_->shared = &shared;
  state_->tenant_name = std::move(tenant_name);
}

void Catalog::put_async(AsyncInvocation invocation, Done<InvocationId> done) {
  if (state_->is_shared(invocation.request)) {
    std::string tenant = state_->tenant_name(invocation.request.function.tenant);
    return state_->shared->put_async(
        {.tenant = std::move(tenant),
         .request = std::move(invocation.request),
         .submitted_at = invocation.submitted_at,
         .attempts = invocation.attempts},
        state_->reaching(FaultPoint::kRequestDurable, std::move(done)));
  }
  const size_t bytes = size_of(invocation.request);
  const TenantId tenant = invocation.request.function.tenant;
  const auto told = state_->reaching(FaultPoint::kRequestDurable, std::move(done));
  state_->writer->ask<KeptAsync>(
      false, bytes,
      [all = state_->async_bytes, tenant, told](Result<KeptAsync> kept) {
        if (!kept.ok()) return told(kept.error());
        (*all)[tenant] = kept->bytes;
        told(kept->id);
      },
      [faults = state_->faults, tenant,
       invocation = std::move(invocation)](Database& database) -> Result<KeptAsync> {
        auto kept = catalog::put_async(database, invocation);
        reach(faults, FaultPoint::kRequestWritten);
        if (!kept.ok()) return kept.error();
        ASSIGN_OR_RETURN(const Bytes all, catalog::async_bytes(database, tenant));
        return KeptAsync{*kept, all};
      });
}

void Catalog::find_async(TenantId tenant, std::string idempotency_key,
                         Done<std::optional<InvocationId>> done) {
  using Found = std::optional<InvocationId>;
  const auto here = [state = state_.get(), tenant, key = idempotency_key](Done<Found> then) {
    state->writer->ask<Found>(true, key.size(), std::move(then), [tenant, key](Database& database) {
      return catalog::find_async(database, tenant, key);
    });
  };
  if (state_->shared == nullptr) return here(std::move(done));
  // What needs objects is kept here.
  const auto there = [here, done = std::move(done)](Result<Found> found) {
    if (!found.ok() || *found) return done(std::move(found));
    here(done);
  };
  state_->shared->find_async(state_->tenant_name(tenant), std::move(idempotency_key), there);
}

void Catalog::begin_async(TenantId tenant, InvocationId id, Done<void> done) {
  const auto here = [state = state_.get(), tenant, id](Done<void> then) {
    state->writer->change(sizeof(id), std::move(then),
                          [faults = state->faults, tenant, id](Database& database) {
                            auto begun = catalog::begin_async(database, tenant, id);
                            reach(faults, FaultPoint::kAttemptWritten);
                            return begun;
                          });
  };
  if (state_->shared == nullptr) return here(std::move(done));
  state_->shared->begin_async(state_->tenant_name(tenant), id,
                              state_->or_else<void>(std::move(done), here));
}

void Catalog::retry_async(TenantId tenant, InvocationId id, AsyncRetry retry, Done<void> done) {
  const auto here = [state = state_.get(), tenant, id, retry](Done<void> then) {
    state->writer->change(sizeof(id) + retry.last_failure.size(),
                          state->reaching(FaultPoint::kRetryDurable, std::move(then)),
                          [faults = state->faults, tenant, id, retry](Database& database) {
                            auto kept = catalog::retry_async(database, tenant, id, retry);
                            reach(faults, FaultPoint::kRetryWritten);
                            return kept;
                          });
  };
  if (state_->shared == nullptr) return here(std::move(done));
  state_->shared->retry_async(state_->tenant_name(tenant), id, std::move(retry),
                              state_->or_else<void>(std::move(done), here));
}

void Catalog::finish_async(TenantId tenant, InvocationResult result, Duration expires_at,
                           std::optional<AsyncSuccessor> successor, Done<void> done) {
  // Shared by both ways.
  const auto kept = std::make_shared<const InvocationResult>(std::move(result));
  const auto here = [state = state_.get(), tenant, kept, expires_at, successor](Done<void> then) {
    const auto told = state->reaching(FaultPoint::kResultDurable, std::move(then));
    state->writer->ask<Bytes>(
        false, size_of(*kept),
        [all = state->async_bytes, tenant, told](Result<Bytes> bytes) {
          if (!bytes.ok()) return told(bytes.error());
          (*all)[tenant] = *bytes;
          told({});
        },
        [faults = state->faults, tenant, kept, expires_at,
         successor](Database& database) -> Result<Bytes> {
          auto finished = catalog::finish_async(database, tenant, *kept, expires_at, successor);
          reach(faults, FaultPoint::kResultWritten);
          if (!finished.ok()) return finished.error();
          return catalog::async_bytes(database, tenant);
        });
  };
  if (state_->shared == nullptr) return here(std::move(done));
  // Where it is kept here, that is the same step.
  const auto told =
      state_->or_else<void>(state_->reaching(FaultPoint::kResultDurable, std::move(done)), here);
  state_->shared->finish_async(state_->tenant_name(tenant), *kept, expires_at, successor, told);
}

void Catalog::find_pending(TenantId tenant, InvocationId id,
                           Done<std::optional<AsyncInvocation>> done) {
  using Answer = std::optional<AsyncInvocation>;
  const auto here = [state = state_.get(), tenant, id](Done<Answer> then) {
    state->writer->ask<Answer>(true, 0, std::move(then), [tenant, id](Database& database) {
      return catalog::find_pending(database, tenant, id);
    });
  };
  if (state_->shared == nullptr) return here(std::move(done));
  state_->shared->find_pending(
      state_->tenant_name(tenant), id,
      [tenant, here, done = std::move(done)](Result<std::optional<SharedInvocation>> found) {
        if (!found.ok()) return done(found.error());
        if (!found->has_value()) return here(done);
        SharedInvocation& shared = **found;
        AsyncInvocation pending = pending_of(std::move(shared));
        pending.request.function.tenant = tenant;
        done(Answer(std::move(pending)));
      });
}

void Catalog::async_result(TenantId tenant, InvocationId id,
                           Done<std::optional<InvocationResult>> done) {
  using Answer = std::optional<InvocationResult>;
  const auto here = [state = state_.get(), tenant, id](Done<Answer> then) {
    state->writer->ask<Answer>(true, 0, std::move(then), [tenant, id](Database& database) {
      return read_async_result(database, tenant, id);
    });
  };
  if (state_->shared == nullptr) return here(std::move(done));
  state_->shared->async_result(state_->tenant_name(tenant), id,
                               state_->or_else<Answer>(std::move(done), here));
}

void Catalog::expire_results(Duration now, Done<uint64_t> done) {
  if (state_->shared != nullptr) state_->shared->expire_results([](Result<uint64_t>) {});
  state_->writer->ask<ExpiredResults>(
      false, 0,
      [all = state_->async_bytes, done = std::move(done)](Result<ExpiredResults> expired) {
        if (!expired.ok()) return done(expired.error());
        if (expired->bytes) *all = *std::move(expired->bytes);
        done(expired->count);
      },
      [now](Database& database) -> Result<ExpiredResults> {
        ExpiredResults expired;
        ASSIGN_OR_RETURN(expired.count, catalog::expire_results(database, now, kExpiredAtOnce));
        if (expired.count == 0) return expired;
        ASSIGN_OR_RETURN(expired.bytes, all_async_bytes(database));
        return expired;
      });
}

Bytes Catalog::async_bytes(TenantId tenant) const {
  const auto found = state_->async_bytes->find(tenant);
  return found == state_->async_bytes->end() ? Bytes() : found->second;
}

bool Catalog::keeps_async_here(const InvocationRequest& request) const {
  return !state_->is_shared(request);
}

void Catalog::save_statistics(std::vector<FunctionStatistics> statistics, Done<void> done) {
  const size_t bytes = statistics.size() * sizeof(FunctionStatistics);
  state_->writer->change(bytes, std::move(done),
                         [statistics = std::move(statistics)](Database& database) {
                           return catalog::save_statistics(database, statistics);
                         });
}

void Catalog::save_gpu_times(std::vector<GpuTimeRecord> records, Done<void> done) {
  size_t bytes = 0;
  for (const GpuTimeRecord& each : records) {
    bytes += sizeof(each) + each.used.size() * sizeof(GpuTimeRecord::Used);
  }
  state_->writer->change(bytes, std::move(done),
                         [records = std::move(records)](Database& database) {
                           return catalog::save_gpu_times(database, records);
                         });
}

void Catalog::save_profile(PipelineProfileRecord record, Done<void> done) {
  const size_t bytes = record.profile.size();
  state_->writer->change(bytes, std::move(done), [record = std::move(record)](Database& database) {
    return catalog::save_profile(database, record);
  });
}

void Catalog::save_firing(FiringRecord record, Done<void> done) {
  const size_t bytes = sizeof(record) + record.schedule.size();
  state_->writer->change(bytes, std::move(done), [record = std::move(record)](Database& database) {
    return catalog::save_firing(database, record);
  });
}

void Catalog::put_tenant(Tenant tenant, Done<Tenant> done) {
  state_->writer->ask<Tenant>(false, sizeof(tenant), std::move(done),
                              [tenant = std::move(tenant)](Database& database) {
                                return catalog::put_tenant(database, tenant);
                              });
}

void Catalog::remove_tenant(TenantId tenant, Done<void> done) {
  state_->writer->change(sizeof(tenant), std::move(done), [tenant](Database& database) {
    return catalog::remove_tenant(database, tenant);
  });
}

void Catalog::put_token(TokenRecord record, Done<void> done) {
  state_->writer->change(sizeof(record), std::move(done),
                         [record = std::move(record)](Database& database) {
                           return catalog::put_token(database, record);
                         });
}

void Catalog::remove_token(std::string id, Done<void> done) {
  state_->writer->change(sizeof(id), std::move(done), [id = std::move(id)](Database& database) {
    return catalog::remove_token(database, id);
  });
}

void Catalog::put_secret(SecretRecord record, Done<void> done) {
  const size_t bytes = sizeof(record) + record.sealed.size();
  state_->writer->change(bytes, std::move(done), [record = std::move(record)](Database& database) {
    return catalog::put_secret(database, record);
  });
}

void Catalog::remove_secret(TenantId tenant, std::string name, Done<void> done) {
  state_->writer->change(sizeof(name), std::move(done),
                         [tenant, name = std::move(name)](Database& database) {
                           return catalog::remove_secret(database, tenant, name);
                         });
}

void Catalog::save_device(DeviceRecord record, Done<void> done) {
  const size_t bytes = record.uuid.size() + record.operators_reason.size() + record.sickness.size();
  state_->writer->change(bytes, std::move(done), [record = std::move(record)](Database& database) {
    return catalog::save_device(database, record);
  });
}

}  // namespace lambent::catalog
