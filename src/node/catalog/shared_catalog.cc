#include "node/catalog/shared_catalog.h"

#include <utility>

#include "core/domain/limits.h"
#include "node/catalog/postgres_database.h"
#include "node/catalog/shared_schema.h"

namespace lambent::catalog {

Result<std::unique_ptr<SharedCatalog>> SharedCatalog::open(const std::string& url, Owner owner,
                                                           const Clock& clock,
                                                           GroupCommit::Post post) {
  const auto with_schema = [](Database& database) { return migrate_shared(database); };
  ASSIGN_OR_RETURN(auto database,
                   open_postgres({.url = url, .lease = owner.node, .prepare = with_schema}, clock));
  auto shared =
      std::make_unique<SharedCatalog>(std::move(database), std::move(owner), std::move(post));
  const auto reached = shared->writer_.run_and_wait(
      [](Database& opened) { return opened.run("SELECT version FROM shared_version"); });
  if (reached.ok()) return shared;
  if (reached.error().code != ErrorCode::kUnavailable) return reached.error();
  shared->unreachable_ = reached.error().message;
  return shared;
}

SharedCatalog::SharedCatalog(std::unique_ptr<Database> database, Owner owner,
                             GroupCommit::Post post)
    : owner_(std::move(owner)),
      writer_(std::move(database),
              {.queue_limit = limits::kCatalogQueue,
               .queue_bytes = limits::kCatalogQueueBytes.count,
               .batch_limit = limits::kCatalogBatch},
              std::move(post)) {}

void SharedCatalog::put_function(SharedFunction function, std::optional<Expected> expected,
                                 std::function<Result<std::string>()> package, Done<void> done) {
  const size_t bytes = function.copy.size();
  writer_.change(bytes, std::move(done),
                 [function = std::move(function), expected = std::move(expected),
                  package = std::move(package)](Database& database) {
                   return put_shared_function(database, function, expected, package);
                 });
}

void SharedCatalog::remove_function(std::string tenant, std::string name, std::string expected,
                                    Done<void> done) {
  writer_.change(
      name.size(), std::move(done),
      [tenant = std::move(tenant), name = std::move(name), expected = std::move(expected)](
          Database& database) { return remove_shared_function(database, tenant, name, expected); });
}

void SharedCatalog::put_tenant(SharedTenant tenant, Done<void> done) {
  writer_.change(tenant.settings.size(), std::move(done),
                 [tenant = std::move(tenant)](Database& database) {
                   return put_shared_tenant(database, tenant);
                 });
}

void SharedCatalog::remove_tenant(std::string name, Done<void> done) {
  writer_.change(name.size(), std::move(done), [name = std::move(name)](Database& database) {
    return remove_shared_tenant(database, name);
  });
}

void SharedCatalog::read(uint64_t known, Done<std::optional<SharedContents>> done) {
  writer_.ask<std::optional<SharedContents>>(true, 0, std::move(done), [known](Database& database) {
    return read_shared(database, known);
  });
}

void SharedCatalog::read_function(std::string tenant, std::string name, Done<std::string> done) {
  writer_.ask<std::string>(
      true, 0, std::move(done),
      [tenant = std::move(tenant), name = std::move(name)](Database& database) {
        return read_shared_function(database, tenant, name);
      });
}

void SharedCatalog::read_package(std::string sha256, Done<std::string> done) {
  writer_.ask<std::string>(true, 0, std::move(done),
                           [sha256 = std::move(sha256)](Database& database) {
                             return read_shared_package(database, sha256);
                           });
}

void SharedCatalog::put_async(SharedInvocation invocation, Done<InvocationId> done) {
  const size_t bytes = invocation.request.payload.size();
  writer_.ask<InvocationId>(
      false, bytes, std::move(done),
      [owner = owner_, invocation = std::move(invocation)](Database& database) {
        return put_shared_async(database, owner, invocation);
      });
}

void SharedCatalog::find_async(std::string tenant, std::string idempotency_key,
                               Done<std::optional<InvocationId>> done) {
  writer_.ask<std::optional<InvocationId>>(
      true, idempotency_key.size(), std::move(done),
      [tenant = std::move(tenant), key = std::move(idempotency_key)](Database& database) {
        return find_shared_async(database, tenant, key);
      });
}

void SharedCatalog::begin_async(std::string tenant, InvocationId id, Done<void> done) {
  writer_.change(0, std::move(done),
                 [owner = owner_, tenant = std::move(tenant), id](Database& database) {
                   return begin_shared_async(database, owner, tenant, id);
                 });
}

void SharedCatalog::finish_async(std::string tenant, InvocationResult result, Duration expires_at,
                                 Done<void> done) {
  const size_t bytes = result.payload.size() + result.log_tail.size();
  writer_.change(bytes, std::move(done),
                 [owner = owner_, tenant = std::move(tenant), result = std::move(result),
                  expires_at](Database& database) {
                   return finish_shared_async(database, owner, tenant, result, expires_at);
                 });
}

void SharedCatalog::async_result(std::string tenant, InvocationId id,
                                 Done<std::optional<InvocationResult>> done) {
  writer_.ask<std::optional<InvocationResult>>(
      true, 0, std::move(done), [tenant = std::move(tenant), id](Database& database) {
        return read_shared_result(database, tenant, id);
      });
}

void SharedCatalog::expire_results(Duration now, Done<uint64_t> done) {
  writer_.ask<uint64_t>(false, 0, std::move(done),
                        [now](Database& database) { return expire_shared_results(database, now); });
}

void SharedCatalog::owners_of_pending(Done<std::vector<std::string>> done) {
  writer_.ask<std::vector<std::string>>(true, 0, std::move(done),
                                        [self = owner_.node](Database& database) {
                                          return catalog::owners_of_pending(database, self);
                                        });
}

void SharedCatalog::claim(std::vector<std::string> lost, size_t most,
                          Done<std::vector<SharedInvocation>> done) {
  writer_.ask<std::vector<SharedInvocation>>(
      false, 0, std::move(done),
      [owner = owner_, lost = std::move(lost), most](Database& database) {
        return claim_shared(database, owner, lost, most);
      });
}

}  // namespace lambent::catalog
