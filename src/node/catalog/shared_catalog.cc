#include "node/catalog/shared_catalog.h"

#include <utility>

#include "node/catalog/limits.h"
#include "node/catalog/postgres_database.h"
#include "node/catalog/shared_schema.h"

namespace lambent::catalog {
namespace {

// In a new session all is read, also of a version that is known: the server may be another one,
// which became the primary without the last changes and has counted on from there.
template <typename Contents>
Result<std::optional<Contents>> read_in_session(Database& database, uint64_t known,
                                                const uint64_t& now, uint64_t& of_last,
                                                Result<std::optional<Contents>> (*read)(Database&,
                                                                                        uint64_t)) {
  auto contents = read(database, known);  // this may be what connects
  const bool is_new = now != of_last;
  if (contents.ok() && !contents->has_value() && is_new) contents = read(database, UINT64_MAX);
  if (contents.ok()) of_last = now;
  return contents;
}

}  // namespace

Result<std::unique_ptr<SharedCatalog>> SharedCatalog::open(Options options, const Clock& clock,
                                                           GroupCommit::Post post) {
  auto sessions = std::make_shared<Sessions>();
  const auto prepare = [sessions, proof = options.key_proof](Database& database) -> Result<void> {
    ++sessions->now;
    RETURN_IF_ERROR(migrate_shared(database));
    return proof.empty() ? Result<void>() : settle_shared_key(database, proof);
  };
  ASSIGN_OR_RETURN(
      auto database,
      open_postgres(
          {.url = std::move(options.url), .lease = options.owner.node, .prepare = prepare}, clock));
  auto shared =
      std::make_unique<SharedCatalog>(std::move(database), std::move(options.owner), clock,
                                      std::move(post), options.faults, std::move(sessions));
  const auto reached = shared->writer_.run_and_wait(
      [](Database& opened) { return opened.run("SELECT version FROM shared_version"); });
  if (reached.ok()) return shared;
  if (reached.error().code != ErrorCode::kUnavailable) return reached.error();
  shared->unreachable_ = reached.error().message;
  return shared;
}

SharedCatalog::SharedCatalog(std::unique_ptr<Database> database, Owner owner, const Clock& clock,
                             GroupCommit::Post post, FaultPoints* faults,
                             std::shared_ptr<Sessions> sessions)
    : owner_(std::move(owner)),
      clock_(clock),
      sessions_(std::move(sessions)),
      faults_(faults),
      writer_(std::move(database),
              {.queue_limit = limits::kCatalogQueue,
               .queue_bytes = limits::kCatalogQueueBytes.count,
               .batch_limit = limits::kCatalogBatch},
              std::move(post)) {}

void SharedCatalog::put_function(SharedFunction function, std::optional<Expected> expected,
                                 std::function<Result<std::string>()> package,
                                 Done<SharedDeployment> done) {
  const size_t bytes = function.copy.size();
  writer_.ask<SharedDeployment>(false, bytes, std::move(done),
                                [function = std::move(function), expected = std::move(expected),
                                 package = std::move(package)](Database& database) {
                                  return put_shared_function(database, function, expected, package);
                                });
}

void SharedCatalog::read_revisions(std::string tenant, std::string function,
                                   Done<std::vector<SharedRevision>> done) {
  writer_.ask<std::vector<SharedRevision>>(
      true, 0, std::move(done),
      [tenant = std::move(tenant), function = std::move(function)](Database& database) {
        return catalog::read_revisions(database, tenant, function);
      });
}

void SharedCatalog::remove_function(std::string tenant, std::string name, std::string expected,
                                    Done<void> done) {
  writer_.change(
      name.size(), std::move(done),
      [tenant = std::move(tenant), name = std::move(name), expected = std::move(expected)](
          Database& database) { return remove_shared_function(database, tenant, name, expected); });
}

void SharedCatalog::publish(SharedVersion publication, Done<uint64_t> done) {
  const size_t bytes = publication.version.copy.size();
  writer_.ask<uint64_t>(false, bytes, std::move(done),
                        [publication = std::move(publication)](Database& database) {
                          return publish_shared(database, publication);
                        });
}

void SharedCatalog::put_alias(SharedFunction alias, std::string expected,
                              std::vector<std::string> versions, Done<void> done) {
  writer_.change(
      alias.copy.size(), std::move(done),
      [alias = std::move(alias), expected = std::move(expected), versions = std::move(versions)](
          Database& database) { return put_shared_alias(database, alias, expected, versions); });
}

void SharedCatalog::remove_version(std::string tenant, std::string name, std::string expected,
                                   std::function<bool(const std::string& copy)> needs_it,
                                   Done<void> done) {
  writer_.change(
      name.size(), std::move(done),
      [tenant = std::move(tenant), name = std::move(name), expected = std::move(expected),
       needs_it = std::move(needs_it)](Database& database) {
        return remove_shared_version(database, tenant, name, expected, needs_it);
      });
}

void SharedCatalog::versions_are_brought(Done<bool> done) {
  writer_.ask<bool>(true, 0, std::move(done),
                    [](Database& database) { return catalog::versions_are_brought(database); });
}

void SharedCatalog::bring_versions(BroughtVersions brought,
                                   std::function<Result<std::string>(const std::string&)> package,
                                   Done<void> done) {
  writer_.change(brought.all.size() * sizeof(SharedFunction), std::move(done),
                 [brought = std::move(brought), package = std::move(package)](Database& database) {
                   return catalog::bring_versions(database, brought, package);
                 });
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
  writer_.ask<std::optional<SharedContents>>(
      true, 0, std::move(done), [known, sessions = sessions_](Database& database) {
        return read_in_session(database, known, sessions->now, sessions->of_contents, read_shared);
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

void SharedCatalog::put_token(SharedToken token, SharedTenant tenant, Done<void> done) {
  writer_.change(tenant.settings.size(), std::move(done),
                 [token = std::move(token), tenant = std::move(tenant)](Database& database) {
                   return put_shared_token(database, token, tenant);
                 });
}

void SharedCatalog::remove_token(std::string id, Done<void> done) {
  writer_.change(id.size(), std::move(done), [id = std::move(id)](Database& database) {
    return remove_shared_token(database, id);
  });
}

void SharedCatalog::put_secret(SharedSecret secret, SharedTenant tenant, Done<void> done) {
  writer_.change(secret.sealed.size(), std::move(done),
                 [secret = std::move(secret), tenant = std::move(tenant)](Database& database) {
                   return put_shared_secret(database, secret, tenant);
                 });
}

void SharedCatalog::remove_secret(std::string tenant, std::string name, Done<void> done) {
  writer_.change(name.size(), std::move(done),
                 [tenant = std::move(tenant), name = std::move(name)](Database& database) {
                   return remove_shared_secret(database, tenant, name);
                 });
}

void SharedCatalog::read_access(uint64_t known, Done<std::optional<SharedAccess>> done) {
  writer_.ask<std::optional<SharedAccess>>(
      true, 0, std::move(done), [known, sessions = sessions_](Database& database) {
        return read_in_session(database, known, sessions->now, sessions->of_access,
                               read_shared_access);
      });
}

void SharedCatalog::put_async(SharedInvocation invocation, Done<InvocationId> done) {
  const size_t bytes = invocation.request.payload.size();
  const std::pair key(invocation.tenant, invocation.request.id);
  held_->invocations.insert(key);
  const auto kept = [held = held_, key, done = std::move(done)](Result<InvocationId> as) {
    // A repeat is kept as the first one.
    if (!as.ok() || *as != key.second) held->invocations.erase(key);
    if (!as.ok() && as.error().code == ErrorCode::kUnavailable) held->in_doubt = true;
    done(std::move(as));
  };
  writer_.ask<InvocationId>(false, bytes, kept,
                            [faults = faults_, owner = owner_, &clock = clock_,
                             invocation = std::move(invocation)](Database& database) {
                              auto put =
                                  put_shared_async(database, owner, invocation, clock.wall_now());
                              reach(faults, FaultPoint::kRequestWritten);
                              return put;
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
  writer_.change(
      0, std::move(done),
      [faults = faults_, owner = owner_, tenant = std::move(tenant), id](Database& database) {
        auto begun = begin_shared_async(database, owner, tenant, id);
        reach(faults, FaultPoint::kAttemptWritten);
        return begun;
      });
}

void SharedCatalog::retry_async(std::string tenant, InvocationId id, AsyncRetry retry,
                                Done<void> done) {
  const size_t bytes = retry.last_failure.size();
  writer_.change(bytes, std::move(done),
                 [owner = owner_, &clock = clock_, tenant = std::move(tenant), id,
                  retry = std::move(retry)](Database& database) {
                   return retry_shared_async(database, owner, tenant, id, retry, clock.wall_now());
                 });
}

void SharedCatalog::finish_async(std::string tenant, InvocationResult result, Duration expires_at,
                                 std::optional<AsyncSuccessor> successor, Done<void> done) {
  const size_t bytes = result.payload.size() + result.log_tail.size();
  std::optional<std::pair<std::string, InvocationId>> next;
  if (successor) next = {tenant, successor->id};
  if (next) held_->invocations.insert(*next);
  const auto finished = [held = held_, key = std::pair(tenant, result.id), next,
                         done = std::move(done)](Result<void> kept) {
    const bool is_over = kept.ok() || kept.error().code == ErrorCode::kNotFound;
    if (is_over) held->invocations.erase(key);
    // Its answer to COMMIT may have been lost before: then the next claim finds what follows it.
    if (next && !kept.ok()) {
      held->invocations.erase(*next);
      held->in_doubt = true;
    }
    done(std::move(kept));
  };
  writer_.change(bytes, finished,
                 [faults = faults_, owner = owner_, &clock = clock_, tenant = std::move(tenant),
                  result = std::move(result), expires_at,
                  successor = std::move(successor)](Database& database) {
                   auto ended = finish_shared_async(database, owner, tenant, result, expires_at,
                                                    successor, clock.wall_now());
                   reach(faults, FaultPoint::kResultWritten);
                   return ended;
                 });
}

void SharedCatalog::find_pending(std::string tenant, InvocationId id,
                                 Done<std::optional<SharedInvocation>> done) {
  writer_.ask<std::optional<SharedInvocation>>(
      true, 0, std::move(done),
      [owner = owner_, &clock = clock_, tenant = std::move(tenant), id](Database& database) {
        return find_shared_pending(database, owner, tenant, id, clock.wall_now());
      });
}

void SharedCatalog::async_result(std::string tenant, InvocationId id,
                                 Done<std::optional<InvocationResult>> done) {
  writer_.ask<std::optional<InvocationResult>>(
      true, 0, std::move(done), [tenant = std::move(tenant), id](Database& database) {
        return read_shared_result(database, tenant, id);
      });
}

void SharedCatalog::expire_results(Done<uint64_t> done) {
  writer_.ask<uint64_t>(false, 0, std::move(done),
                        [](Database& database) { return expire_shared_results(database); });
}

void SharedCatalog::time(Done<SharedTime> done) {
  writer_.ask<SharedTime>(
      true, 0, std::move(done), [&clock = clock_](Database& database) -> Result<SharedTime> {
        const Instant asked = clock.now();
        ASSIGN_OR_RETURN(const Duration there, time_of(database));
        return SharedTime{.at = asked + (clock.now() - asked) / 2, .time = there};
      });
}

void SharedCatalog::owners_of_pending(Done<std::vector<std::string>> done) {
  writer_.ask<std::vector<std::string>>(true, 0, std::move(done),
                                        [self = owner_.node](Database& database) {
                                          return catalog::owners_of_pending(database, self);
                                        });
}

void SharedCatalog::functions_to_claim(std::vector<std::string> lost, TenantFunction after,
                                       size_t most, Done<std::vector<TenantFunction>> done) {
  writer_.ask<std::vector<TenantFunction>>(
      true, 0, std::move(done),
      [owner = owner_, lost = std::move(lost), after = std::move(after), most](Database& database) {
        return catalog::functions_to_claim(database, owner, lost, after, most);
      });
}

void SharedCatalog::claim(std::vector<std::string> lost, std::vector<TenantFunction> functions,
                          size_t most, Done<std::vector<SharedInvocation>> done) {
  if (std::exchange(held_->claims, true)) {
    return done(Error{ErrorCode::kAborted, "a claim is on its way"});
  }
  const auto claimed = [held = held_, done = std::move(done)](auto invocations) {
    held->claims = false;
    if (!invocations.ok()) held->in_doubt = true;
    if (invocations.ok()) {
      for (const SharedInvocation& each : *invocations) {
        held->invocations.emplace(each.tenant, each.request.id);
      }
    }
    done(std::move(invocations));
  };
  // What is put from now on fails after this, if it does, and is looked for by the next one.
  const bool in_doubt = std::exchange(held_->in_doubt, false);
  writer_.ask<std::vector<SharedInvocation>>(
      false, 0, claimed,
      [owner = owner_, &clock = clock_, lost = std::move(lost), functions = std::move(functions),
       most, held = in_doubt ? std::optional(held_->invocations) : std::nullopt](
          Database& database) -> Result<std::vector<SharedInvocation>> {
        if (held) RETURN_IF_ERROR(give_up_unheld(database, owner, *held));
        return claim_shared(database, owner, lost, functions, most, clock.wall_now());
      });
}

void SharedCatalog::give(std::string tenant, InvocationId id, std::string node, Done<void> done) {
  const auto given = [held = held_, tenant, id, done = std::move(done)](Result<void> outcome) {
    const bool is_gone = !outcome.ok() && outcome.error().code == ErrorCode::kNotFound;
    if (outcome.ok() || is_gone) held->invocations.erase({tenant, id});
    done(std::move(outcome));
  };
  writer_.change(sizeof(id), given,
                 [owner = owner_, tenant, id, node = std::move(node)](Database& database) {
                   return give_shared(database, owner, tenant, id, node);
                 });
}

}  // namespace lambent::catalog
