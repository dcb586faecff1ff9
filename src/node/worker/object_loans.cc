#include "node/worker/object_loans.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {
namespace {

// An executor that is asked answers between two requests; one that does not is not waited for.
constexpr Duration kMostWait = milliseconds(20);

}  // namespace

// On the borrower's own device before another, and of others who used it last.
const ExecutorKey* ObjectLoans::nearest(const objects::ObjectKey& object,
                                        const ExecutorKey& borrower) const {
  const ObjectPlaces::Copy* best = nullptr;
  const auto* copies = places_.find(object);
  if (copies == nullptr) return nullptr;
  const auto rank = [&](const ObjectPlaces::Copy& copy) {
    return std::pair(copy.holder.device == borrower.device, copy.last_use);
  };
  for (const ObjectPlaces::Copy& copy : *copies) {
    const bool can_lend = copy.held > Bytes(0) && !copy.told && copy.holder != borrower &&
                          supervisor_.ready(copy.holder) &&
                          supervisor_.reaches(borrower, copy.holder.device);
    if (can_lend && (best == nullptr || rank(copy) > rank(*best))) best = &copy;
  }
  return best != nullptr ? &best->holder : nullptr;
}

// Requests that are too late count for nothing: their loans go back unseen.
bool ObjectLoans::has_loan(const ExecutorKey& borrower, ObjectId object) const {
  const auto is_this = [&](const auto& each) {
    return each.borrower == borrower && each.object == object;
  };
  return std::ranges::any_of(out_, is_this) ||
         std::ranges::any_of(requests_,
                             [&](const Request& each) { return is_this(each) && each.done; });
}

bool ObjectLoans::borrow(ObjectId object, const ExecutorKey& borrower, Callback done) {
  const objects::ObjectKey key{borrower.tenant, object};
  const ExecutorKey* lender = nearest(key, borrower);
  if (lender == nullptr || has_loan(borrower, object)) return false;
  ask({0, object, *lender, borrower, false, std::move(done)});
  return true;
}

void ObjectLoans::lend(ObjectId object, const ExecutorKey& lender, const ExecutorKey& borrower,
                       Callback done) {
  if (has_loan(borrower, object)) return done(std::nullopt);
  ask({0, object, lender, borrower, true, std::move(done)});
}

void ObjectLoans::ask(Request request) {
  const uint64_t number = ++last_request_;
  request.number = number;
  supervisor_.send(request.lender, protocol::LendObject{request.object});
  requests_.push_back(std::move(request));
  loop_.call_after(kMostWait, [this, number, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const auto late = std::find_if(requests_.begin(), requests_.end(),
                                   [number](const Request& each) { return each.number == number; });
    if (late == requests_.end() || !late->done) return;
    std::exchange(late->done, nullptr)(std::nullopt);
  });
}

void ObjectLoans::lent(const ExecutorKey& lender, ObjectId object, Result<Loan> loan) {
  const auto asked = std::find_if(requests_.begin(), requests_.end(), [&](const Request& each) {
    return each.lender == lender && each.object == object;
  });
  if (asked == requests_.end()) return;
  Request request = std::move(*asked);
  requests_.erase(asked);
  if (!loan.ok()) {
    // What does not lie there it will not have again by itself: the next one need not ask.
    if (loan.error().code == ErrorCode::kNotFound) {
      places_.held({lender.tenant, object}, lender, Bytes(0));
    }
    if (request.done) request.done(std::nullopt);
    return;
  }
  const Out out{object, lender, request.borrower, request.moves, supervisor_.process_of(lender)};
  count(out, true);
  if (!request.done || !loan->memory.valid()) {
    give_back(out);
    if (request.done) request.done(std::nullopt);
    return;
  }
  out_.push_back(out);
  loan->from = lender.device;
  request.done(std::move(loan).value());
}

void ObjectLoans::ended(const ExecutorKey& borrower, ObjectId object) {
  const auto found = std::find_if(out_.begin(), out_.end(), [&](const Out& each) {
    return each.borrower == borrower && each.object == object;
  });
  if (found == out_.end()) return;
  const Out out = *found;
  out_.erase(found);
  give_back(out);
  if (out.moves) on_moved_({borrower.tenant, object}, out.lender, borrower);
}

void ObjectLoans::give_back(const Out& loan) {
  if (supervisor_.process_of(loan.lender) != loan.process) return;
  count(loan, false);
  supervisor_.send(loan.lender, protocol::LoanEnded{loan.object});
  // What it was told to let go of may have stayed for this loan.
  places_.may_let_go(loan.lender);
}

void ObjectLoans::count(const Out& loan, bool begins) {
  places_.lent({loan.lender.tenant, loan.object}, loan.lender, begins);
}

void ObjectLoans::executor_ended(const ExecutorKey& key) {
  std::vector<Callback> unanswered;
  for (auto each = requests_.begin(); each != requests_.end();) {
    // What a borrower asked for that is gone, it does not wait for; what moves must go elsewhere.
    if (each->borrower == key) {
      if (each->done && each->moves) unanswered.push_back(std::move(each->done));
      each->done = nullptr;
    }
    if (each->lender != key) {
      ++each;
      continue;
    }
    if (each->done) unanswered.push_back(std::move(each->done));
    each = requests_.erase(each);
  }
  std::vector<Out> moved;
  for (auto each = out_.begin(); each != out_.end();) {
    if (each->borrower == key) {
      give_back(*each);
      if (each->moves) moved.push_back(*each);
    }
    // What was lent by one that is gone stays with who has it.
    each = each->borrower == key || each->lender == key ? out_.erase(each) : each + 1;
  }
  for (const Callback& done : unanswered) done(std::nullopt);
  for (const Out& out : moved) on_moved_({key.tenant, out.object}, out.lender, key);
}

}  // namespace lambent::worker
