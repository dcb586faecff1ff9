// Catalog: the worker's durable memory (SQLite): functions, tenants and tokens, asynchronous
// invocations and their results, learnt statistics, what is held against GPUs. Called from the loop
// thread; one thread of its own writes, and hands completions to `post`, so that they run on the
// loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fault_points.h"
#include "core/base/result.h"
#include "node/catalog/limits.h"
#include "node/catalog/records.h"
#include "node/catalog/shared_catalog.h"

namespace lambent::catalog {

struct CatalogOptions {
  // Requests that wait for the writer; above either, RESOURCE_EXHAUSTED at once.
  size_t queue_limit = limits::kCatalogQueue;
  Bytes queue_bytes = limits::kCatalogQueueBytes;
  // The most requests that share one commit.
  size_t batch_limit = limits::kCatalogBatch;
  // The database may not grow beyond this; zero: as large as the disk lets it.
  Bytes database_limit;
  // Called through `post` before the answers of changes for which the disk had no space; may be
  // empty.
  std::function<void()> on_storage_full;
  FaultPoints* faults = nullptr;  // null: there are none
};

// Every change is durable (committed and synced) before its `done` is called with a value; when it
// is called with an error, the change may be assumed not to have happened. Errors common to all:
// RESOURCE_EXHAUSTED (the queue is full: try again later), STORAGE_FULL (the disk is), DATA_LOSS
// (the file is damaged), UNAVAILABLE (the disk failed).
//
// `done` runs through `post`, in the order of the calls; only when the queue is full is it called
// before the method returns.
class Catalog {
 public:
  using Task = std::function<void()>;
  // Runs a task on the loop thread; false: not now, try again (the loop's mailbox is full).
  using Post = std::function<bool(Task)>;
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  // Opens or makes the database at `path`, brings its schema up to date and starts the writer.
  // DATA_LOSS for a damaged file, FAILED_PRECONDITION for one of a newer version or one that
  // another process has open.
  static Result<std::unique_ptr<Catalog>> open(const std::string& path, CatalogOptions options,
                                               Post post);
  // Commits what is queued, then stops the writer; completions that `post` refuses are dropped.
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // These three block until they have an answer: for start-up, before the loop runs.
  Result<Snapshot> load_all();
  Result<AccessRecords> load_access();
  // Invocations without a result, in order of submission, after `after_sequence` (0: from the
  // first); at most `limit`, or 64 MiB of payload if that is less.
  Result<std::vector<AsyncInvocation>> pending_async(uint64_t after_sequence, size_t limit);

  // Adds a function (spec.id zero: the catalog gives one, never one that was used before;
  // ALREADY_EXISTS if the tenant has that name) or replaces it (spec.id set; NOT_FOUND if it is
  // gone). The answer is the spec as kept.
  // `keeps_revision`: it can be gone back to later.
  void put_function(FunctionSpec spec, Done<FunctionSpec> done, bool keeps_revision = true);
  // An id that no function had or will have, for one that ends with this worker.
  void reserve_function_id(Done<FunctionId> done);
  // Keeps the function under the next number of its versions, as a function of its own. The answer
  // is that one. NOT_FOUND.
  // FAILED_PRECONDITION: it had a version of `number` or above, where a number is given.
  void publish_version(FunctionSpec spec, std::optional<uint64_t> number, Done<FunctionSpec> done);
  // Adds or replaces it. NOT_FOUND if its function is gone.
  // As the function of that name in version_table.h.
  void keep_version(FunctionSpec spec, uint64_t number, Done<FunctionSpec> done);
  void put_alias(Alias alias, Done<void> done);
  void remove_alias(Alias alias, Done<void> done);
  // What becomes of a deployment that was answered already; adds or replaces it.
  void put_deployment(DeploymentRecord record, Done<void> done);
  void remove_deployment(FunctionName name, Done<void> done);
  // NOT_FOUND if there is none. Its versions, aliases and statistics go; its asynchronous
  // invocations and results stay.
  void remove_function(FunctionName name, Done<void> done);

  // From now on asynchronous invocations that need no objects are kept in `shared`, under the names
  // of their tenants. Both outlive this.
  void share_async(SharedCatalog& shared, std::function<std::string(TenantId)> tenant_name);
  // Accepts an asynchronous invocation; ALREADY_EXISTS if the tenant has one with this id. The
  // answer is the id under which it is kept: another than its own if the tenant has one with the
  // same idempotency key (not empty), pending or with a result; then nothing is added.
  void put_async(AsyncInvocation invocation, Done<InvocationId> done);
  // Under which id the tenant's invocation with this idempotency key is kept, if there is one.
  void find_async(TenantId tenant, std::string idempotency_key,
                  Done<std::optional<InvocationId>> done);
  // Notes that it runs now, once more. NOT_FOUND if there is none without a result.
  void begin_async(TenantId tenant, InvocationId id, Done<void> done);
  // Its run failed and it is tried again. NOT_FOUND if there is none without a result.
  void retry_async(TenantId tenant, InvocationId id, AsyncRetry retry, Done<void> done);
  // Stores its outcome, readable until `expires_at` (since the Unix epoch), and in the same commit
  // accepts the invocation that follows it, if any. NOT_FOUND if there is none without a result.
  void finish_async(TenantId tenant, InvocationResult result, Duration expires_at,
                    std::optional<AsyncSuccessor> successor, Done<void> done);
  // One without a result; nothing if there is none. In a shared catalog its function is zero.
  void find_pending(TenantId tenant, InvocationId id, Done<std::optional<AsyncInvocation>> done);
  // nullopt while it is queued or running; NOT_FOUND if it is unknown or its result has expired.
  void async_result(TenantId tenant, InvocationId id, Done<std::optional<InvocationResult>> done);
  // What the tenant's asynchronous invocations take here, with their results; not those in
  // `shared`. As of the last of them that was answered. On the loop thread, once load_all() has
  // run.
  Bytes async_bytes(TenantId tenant) const;
  // Whether this one would be kept here.
  bool keeps_async_here(const InvocationRequest& request) const;
  // Removes results whose time is over, at most 10,000 a call; answers how many.
  void expire_results(Duration now, Done<uint64_t> done);

  // Keeps statistics of functions, replacing older ones; those of removed functions are skipped.
  void save_statistics(std::vector<FunctionStatistics> statistics, Done<void> done);
  // Keeps what tenants used of GPUs, replacing what was before; that of removed tenants is skipped.
  void save_gpu_times(std::vector<GpuTimeRecord> records, Done<void> done);
  // Keeps what was measured of a pipeline function, replacing what was before.
  void save_profile(PipelineProfileRecord record, Done<void> done);
  // Keeps the last firing of a schedule, replacing what was before; that of a removed function is
  // skipped.
  void save_firing(FiringRecord record, Done<void> done);
  // Adds a tenant (id zero: the catalog gives one, never one that was used before; ALREADY_EXISTS
  // if the name is taken) or replaces it (NOT_FOUND if it is gone). The answer is the tenant as
  // kept.
  void put_tenant(Tenant tenant, Done<Tenant> done);
  // And its tokens. NOT_FOUND; FAILED_PRECONDITION if it has functions.
  void remove_tenant(TenantId tenant, Done<void> done);
  // NOT_FOUND if the token's tenant is gone.
  void put_token(TokenRecord record, Done<void> done);
  void remove_token(std::string id, Done<void> done);
  // Adds or replaces it. NOT_FOUND if the tenant is gone.
  void put_secret(SecretRecord record, Done<void> done);
  void remove_secret(TenantId tenant, std::string name, Done<void> done);
  // Keeps what is to be known of a GPU, replacing what was before.
  void save_device(DeviceRecord record, Done<void> done);

 private:
  struct State;
  explicit Catalog(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lambent::catalog
