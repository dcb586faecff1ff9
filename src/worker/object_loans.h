// ObjectLoans: objects that an executor lends to another on the device, so that they need not come
// over the link: who has made what, who is asked for it, and when it gets it back. Used by
// ExecutorHost on the loop thread.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/ids.h"
#include "base/units.h"
#include "loop/event_loop.h"
#include "worker/executor_supervisor.h"

namespace lambent::worker {

class ObjectLoans {
 public:
  // Device memory that an object lies at the beginning of.
  struct Loan {
    Bytes size;
    OwnedFd memory;  // not valid: it did not come, and the loan goes back
  };
  // Called once, later; none: it comes over the link.
  using Callback = std::function<void(std::optional<Loan>)>;

  // Both outlive it.
  ObjectLoans(loop::EventLoop& loop, ExecutorSupervisor& supervisor)
      : loop_(loop), supervisor_(supervisor) {}
  ObjectLoans(const ObjectLoans&) = delete;
  ObjectLoans& operator=(const ObjectLoans&) = delete;

  // This executor made it, and may have it on the device.
  void made(ObjectId object, Bytes size, const ExecutorKey& maker);
  // Asks for a loan; false if there is nobody to ask. The borrower says when it has done with it.
  bool borrow(ObjectId object, const ExecutorKey& borrower, Callback done);

  // What executors say.
  void lent(const ExecutorKey& lender, ObjectId object, std::optional<Loan> loan);
  void ended(const ExecutorKey& borrower, ObjectId object);
  void executor_ended(const ExecutorKey& key);

 private:
  struct Made {
    ObjectId object;
    ExecutorKey maker;
    SandboxId process;
  };
  struct Request {  // that is not answered yet
    uint64_t number = 0;
    ObjectId object;
    ExecutorKey lender, borrower;
    Callback done;  // empty: too late, the loan goes back at once
  };
  struct Out {
    ObjectId object;
    ExecutorKey lender, borrower;
    SandboxId process;  // of the lender
  };
  void give_back(const Out& loan);

  loop::EventLoop& loop_;
  ExecutorSupervisor& supervisor_;
  std::list<Made> made_;  // the latest first
  std::unordered_map<ObjectId, std::list<Made>::iterator> by_object_;
  std::list<Request> requests_;  // in the order in which each lender was asked
  std::vector<Out> out_;
  uint64_t last_request_ = 0;
  // So that what a timer says later finds nobody.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
