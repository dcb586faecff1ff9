#include "node/catalog/group_commit.h"

#include <algorithm>
#include <chrono>
#include <future>

namespace lambent::catalog {
namespace {

// How long to wait before a full mailbox is tried again, and how often once we are stopping.
constexpr auto kPostAgainAfter = std::chrono::milliseconds(1);
constexpr int kPostsWhileStopping = 1000;

void roll_back(Database& database) {
  // A full disk and the like end the transaction by themselves.
  if (database.in_transaction()) (void)database.run("ROLLBACK").ok();
}

}  // namespace

struct GroupCommit::Completion {
  std::function<void(Result<void>)> complete;
  Result<void> outcome;
};

GroupCommit::GroupCommit(std::unique_ptr<Database> database, GroupCommitOptions options, Post post)
    : database_(std::move(database)), options_(options), post_(std::move(post)) {
  thread_ = std::thread([this] { write_until_stopped(); });
}

GroupCommit::~GroupCommit() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void GroupCommit::submit(Operation operation) {
  {
    const MutexLock lock(mutex_);
    if (queue_.size() < options_.queue_limit &&
        queued_bytes_ + operation.bytes <= options_.queue_bytes) {
      queued_bytes_ += operation.bytes;
      queue_.push_back(std::move(operation));
      wake_.notify_one();
      return;
    }
  }
  operation.complete(Error{ErrorCode::kResourceExhausted,
                           "too many changes wait for the disk; try again in a moment"});
}

Result<void> GroupCommit::run_and_wait(std::function<Result<void>(Database&)> apply) {
  std::promise<Result<void>> answer;
  auto future = answer.get_future();
  Operation operation;
  operation.reads_only = true;
  operation.apply = [&](Database& database) {
    answer.set_value(apply(database));
    return Result<void>();
  };
  operation.complete = [](Result<void>) {};
  {
    // Waiting is its bound.
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(operation));
  }
  wake_.notify_one();
  return future.get();
}

void GroupCommit::write_until_stopped() {
  for (;;) {
    Batch batch = take_batch();
    if (batch.empty()) return;
    deliver(perform(std::move(batch)));
  }
}

// Waits for work; empty once we are stopping and nothing is left.
GroupCommit::Batch GroupCommit::take_batch() {
  MutexLock lock(mutex_);
  while (!stopping_ && queue_.empty()) wake_.wait(lock);
  Batch batch;
  while (!queue_.empty() && batch.size() < options_.batch_limit) {
    queued_bytes_ -= queue_.front().bytes;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

std::vector<GroupCommit::Completion> GroupCommit::perform(Batch batch) {
  std::vector<Operation*> changes;
  for (Operation& operation : batch) {
    if (!operation.reads_only) changes.push_back(&operation);
  }
  std::vector<Result<void>> outcomes(changes.size());
  if (!changes.empty() && !commit_together(changes, outcomes).ok()) {
    // Nothing of the batch is in. One by one, so that those that fit are not lost with the others.
    for (size_t i = 0; i < changes.size(); ++i) outcomes[i] = commit_alone(*changes[i]);
  }
  std::vector<Completion> completions;
  size_t change = 0;
  for (Operation& operation : batch) {
    completions.push_back({std::move(operation.complete), operation.reads_only
                                                              ? operation.apply(*database_)
                                                              : std::move(outcomes[change++])});
  }
  return completions;
}

Result<void> GroupCommit::commit_together(const std::vector<Operation*>& changes,
                                          std::vector<Result<void>>& outcomes) {
  RETURN_IF_ERROR(database_->begin());
  for (size_t i = 0; i < changes.size(); ++i) {
    outcomes[i] = apply_in_savepoint(*changes[i]);
    if (!database_->in_transaction()) return outcomes[i].error();
  }
  const auto committed = database_->run("COMMIT");
  if (!committed.ok()) roll_back(*database_);
  return committed;
}

// A change that fails takes nothing else of its batch with it. Afterwards no transaction is open
// if the failure ended it, or if its savepoint could not be undone.
Result<void> GroupCommit::apply_in_savepoint(Operation& change) {
  const auto begun = database_->run("SAVEPOINT change");
  if (!begun.ok()) {
    roll_back(*database_);
    return begun;
  }
  const auto applied = change.apply(*database_);
  if (!database_->in_transaction()) return applied;
  auto ended = Result<void>();
  if (!applied.ok()) ended = database_->run("ROLLBACK TO change");
  if (ended.ok()) ended = database_->run("RELEASE change");
  if (!ended.ok()) {
    roll_back(*database_);
    return ended;
  }
  return applied;
}

Result<void> GroupCommit::commit_alone(Operation& change) {
  RETURN_IF_ERROR(database_->begin());
  auto applied = change.apply(*database_);
  if (applied.ok()) applied = database_->run("COMMIT");
  if (!applied.ok()) roll_back(*database_);
  return applied;
}

void GroupCommit::deliver(std::vector<Completion> completions) {
  // Shared because a std::function must be copyable.
  auto shared = std::make_shared<std::vector<Completion>>(std::move(completions));
  const bool full = std::ranges::any_of(*shared, [](const Completion& completion) {
    return !completion.outcome.ok() && completion.outcome.error().code == ErrorCode::kStorageFull;
  });
  const std::function<void()> task = [shared, full, &tell = options_.on_storage_full] {
    if (full && tell) tell();
    for (Completion& completion : *shared) completion.complete(std::move(completion.outcome));
  };
  for (int refused = 0; !post_(task);) {
    {
      const MutexLock lock(mutex_);
      if (stopping_ && ++refused > kPostsWhileStopping) return;
    }
    std::this_thread::sleep_for(kPostAgainAfter);
  }
}

}  // namespace lambent::catalog
