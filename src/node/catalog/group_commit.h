// GroupCommit: a thread that owns the database and commits the changes that wait for it together,
// one sync for many. Changes are submitted from one thread; completions go out through a Post.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/result.h"
#include "node/catalog/database.h"

namespace lambent::catalog {

// One request to the database. `apply` runs on the writer thread, perhaps twice; `complete` is
// handed to the Post once what it says is durable.
struct Operation {
  std::function<Result<void>(Database&)> apply;
  std::function<void(Result<void>)> complete;
  // Reads are applied outside the transaction, after the changes of their batch.
  bool reads_only = false;
  // What it holds in memory while it waits.
  size_t bytes = 0;
};

struct GroupCommitOptions {
  size_t queue_limit = 0;
  size_t queue_bytes = 0;
  size_t batch_limit = 0;
  // Posted with the completions of a batch that has changes for which the disk had no space, and
  // called before them; may be empty.
  std::function<void()> on_storage_full = {};
};

class GroupCommit {
 public:
  using Post = std::function<bool(std::function<void()>)>;

  GroupCommit(std::unique_ptr<Database> database, GroupCommitOptions options, Post post);
  // Commits what is queued first.
  ~GroupCommit();
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  template <typename T>
  using Done = std::function<void(Result<T>)>;

  // A full queue completes the operation with RESOURCE_EXHAUSTED before it returns.
  void submit(Operation operation);
  // A change without an answer of its own, which holds that many bytes while it waits.
  void change(size_t bytes, Done<void> done, std::function<Result<void>(Database&)> apply) {
    submit({.apply = std::move(apply),
            .complete = std::move(done),
            .reads_only = false,
            .bytes = bytes});
  }
  // Something that answers a T.
  template <typename T>
  void ask(bool reads_only, size_t bytes, Done<T> done, std::function<Result<T>(Database&)> apply);
  // Waits for the answer, which is not posted. For start-up.
  Result<void> run_and_wait(std::function<Result<void>(Database&)> apply);

 private:
  struct Completion;
  using Batch = std::vector<Operation>;

  void write_until_stopped();
  Batch take_batch();
  std::vector<Completion> perform(Batch batch);
  Result<void> commit_together(const std::vector<Operation*>& changes,
                               std::vector<Result<void>>& outcomes);
  Result<void> commit_alone(Operation& change);
  Result<void> apply_in_savepoint(Operation& change);
  void deliver(std::vector<Completion> completions);

  std::unique_ptr<Database> database_;
  const GroupCommitOptions options_;
  const Post post_;

  // Held for no call out.
  Mutex mutex_;
  Condition wake_;
  std::deque<Operation> queue_ GUARDED_BY(mutex_);
  size_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

template <typename T>
void GroupCommit::ask(bool reads_only, size_t bytes, Done<T> done,
                      std::function<Result<T>(Database&)> apply) {
  // Shared by the two halves of the operation: the writer fills it, the loop takes it.
  auto answer = std::make_shared<std::optional<T>>();
  submit({.apply = [answer, apply = std::move(apply)](Database& database) -> Result<void> {
            ASSIGN_OR_RETURN(*answer, apply(database));
            return {};
          },
          .complete =
              [answer, done = std::move(done)](Result<void> outcome) {
                if (!outcome.ok()) return done(outcome.error());
                done(std::move(**answer));
              },
          .reads_only = reads_only,
          .bytes = bytes});
}

}  // namespace lambent::catalog
