#include "worker/object_loans.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {
namespace {

// Smaller ones share a unit of the device's memory with others, and come over the link as quickly.
constexpr Bytes kLeastLoan = Bytes::mib(1);
// Makers that are remembered.
constexpr size_t kMostMade = 4096;
// An executor that is asked answers between two requests; one that does not is not waited for.
constexpr Duration kMostWait = milliseconds(20);

}  // namespace

void ObjectLoans::made(ObjectId object, Bytes size, const ExecutorKey& maker) {
  if (size < kLeastLoan || by_object_.contains(object)) return;
  made_.push_front({object, maker, supervisor_.process_of(maker)});
  by_object_[object] = made_.begin();
  if (made_.size() <= kMostMade) return;
  by_object_.erase(made_.back().object);
  made_.pop_back();
}

bool ObjectLoans::borrow(ObjectId object, const ExecutorKey& borrower, Callback done) {
  const auto found = by_object_.find(object);
  if (found == by_object_.end()) return false;
  const Made& made = *found->second;
  const bool can_lend = made.maker != borrower && made.maker.tenant == borrower.tenant &&
                        supervisor_.ready(made.maker) &&
                        supervisor_.reaches(borrower, made.maker.device) &&
                        supervisor_.process_of(made.maker) == made.process;
  if (!can_lend) return false;
  const uint64_t number = ++last_request_;
  requests_.push_back({number, object, made.maker, borrower, std::move(done)});
  supervisor_.send(made.maker, protocol::LendObject{object});
  loop_.call_after(kMostWait, [this, number, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const auto late = std::find_if(requests_.begin(), requests_.end(),
                                   [number](const Request& each) { return each.number == number; });
    if (late == requests_.end() || !late->done) return;
    std::exchange(late->done, nullptr)(std::nullopt);
  });
  return true;
}

void ObjectLoans::lent(const ExecutorKey& lender, ObjectId object, std::optional<Loan> loan) {
  const auto asked = std::find_if(requests_.begin(), requests_.end(), [&](const Request& each) {
    return each.lender == lender && each.object == object;
  });
  if (asked == requests_.end()) return;
  Request request = std::move(*asked);
  requests_.erase(asked);
  if (!loan) {
    // It will not have it again: the next one need not ask.
    if (const auto found = by_object_.find(object); found != by_object_.end()) {
      made_.erase(found->second);
      by_object_.erase(found);
    }
    if (request.done) request.done(std::nullopt);
    return;
  }
  const Out out{object, lender, request.borrower, supervisor_.process_of(lender)};
  if (!request.done || !loan->memory.valid()) {
    give_back(out);
    if (request.done) request.done(std::nullopt);
    return;
  }
  out_.push_back(out);
  request.done(std::move(loan));
}

void ObjectLoans::ended(const ExecutorKey& borrower, ObjectId object) {
  const auto found = std::find_if(out_.begin(), out_.end(), [&](const Out& each) {
    return each.borrower == borrower && each.object == object;
  });
  if (found == out_.end()) return;
  give_back(*found);
  out_.erase(found);
}

void ObjectLoans::give_back(const Out& loan) {
  if (supervisor_.process_of(loan.lender) != loan.process) return;
  supervisor_.send(loan.lender, protocol::LoanEnded{loan.object});
}

void ObjectLoans::executor_ended(const ExecutorKey& key) {
  for (auto each = made_.begin(); each != made_.end();) {
    if (each->maker != key) {
      ++each;
      continue;
    }
    by_object_.erase(each->object);
    each = made_.erase(each);
  }
  std::vector<Callback> unanswered;
  for (auto each = requests_.begin(); each != requests_.end();) {
    // What a borrower asked for that is gone, it does not wait for.
    if (each->borrower == key) each->done = nullptr;
    if (each->lender != key) {
      ++each;
      continue;
    }
    if (each->done) unanswered.push_back(std::move(each->done));
    each = requests_.erase(each);
  }
  for (auto each = out_.begin(); each != out_.end();) {
    if (each->borrower == key) give_back(*each);
    // What was lent by one that is gone stays with who has it.
    each = each->borrower == key || each->lender == key ? out_.erase(each) : each + 1;
  }
  for (const Callback& done : unanswered) done(std::nullopt);
}

}  // namespace lambent::worker
