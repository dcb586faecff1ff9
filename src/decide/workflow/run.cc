#include "decide/workflow/run.h"

#include <algorithm>
#include <utility>

namespace lambent::workflow {
namespace {

// Of failures that a workflow finds itself.
constexpr const char* kBadValue = "Workflow.BadValue";
// Components begun, or elements looked at, in one step.
constexpr size_t kPartsOfAStep = 16;

}  // namespace

struct Run::Element {
  const Value* item = nullptr;
  Value index;
};

Run::Run(std::shared_ptr<const Workflow> workflow, std::string name, RunLimits limits)
    : workflow_(std::move(workflow)), name_(std::move(name)), limits_(limits) {
  const auto& components = workflow_->components;
  progress_.resize(components.size());
  results_.resize(components.size());
  unfinished_ = components.size();
  for (uint32_t i = 0; i < components.size(); ++i) {
    names_.push_back(components[i].name);
    progress_[i].missing = static_cast<uint32_t>(components[i].needs.size());
    for (const uint32_t need : components[i].needs) progress_[need].needed_by.push_back(i);
    if (components[i].needs.empty()) ready_.push_back(i);
  }
}

RunStep Run::start(CallResult input) {
  input_ = std::move(input.value);
  size_ += input.size;
  if (size_ > limits_.values) {
    conclude(Failure{.message = "the input of " + name_ + " takes more than " +
                                to_string(limits_.values) +
                                " in memory; hand large data on as objects",
                     .type = kBadValue,
                     .code = ErrorCode::kResourceExhausted});
  }
  return advance();
}

RunStep Run::ended(const CallKey& key, CallEnd end) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& each) { return each.first == key; });
  if (over_ || found == running_.end()) return {};
  const unsigned attempt = found->second;
  running_.erase(found);
  Progress& progress = progress_[key.component];
  if (auto* failure = std::get_if<Failure>(&end)) {
    if (!tries_again(key, attempt, *failure)) fail(key, std::move(*failure));
    return advance();
  }
  auto& result = std::get<CallResult>(end);
  if (!keep(key, result.size)) return advance();
  if (making_again_.contains(key)) {
    made_again(key, std::move(result));
    return advance();
  }
  if (key.element) {
    progress.result[*key.element] = std::move(result.value);
  } else {
    progress.result = std::move(result.value);
  }
  if (--progress.left == 0) finish(key.component);
  return advance();
}

bool Run::tries_again(const CallKey& key, unsigned attempt, const Failure& failure) {
  if (attempt >= limits_.attempts) return false;
  const Component& component = workflow_->components[key.component];
  const Pending again{key, attempt + 1};
  if (failure.lost.empty()) {
    if (!failure.of_place || !(component.idempotent || failure.without_effects)) return false;
    pending_.push_front(again);
    return true;
  }
  for (const CallKey& lost : failure.lost) {
    if (making_again_.insert(lost).second) pending_.push_front({lost});
  }
  lacking_.emplace_back(again, std::set<CallKey>(failure.lost.begin(), failure.lost.end()));
  return true;
}

// What was called with the former result keeps it.
void Run::made_again(const CallKey& key, CallResult result) {
  Value& kept = progress_[key.component].result;
  Value& place = key.element ? kept[*key.element] : kept;
  size_ -= std::min(size_, memory_of(place));
  place = std::move(result.value);
  making_again_.erase(key);
  for (auto& [call, lost] : lacking_) {
    if (lost.erase(key) > 0 && lost.empty()) pending_.push_front(call);
  }
  std::erase_if(lacking_, [](const auto& each) { return each.second.empty(); });
}

// Everything that follows from what is known, until only calls can bring more.
RunStep Run::advance() {
  for (size_t part = 0; part < kPartsOfAStep && !over_; ++part) {
    if (selection_) {
      select_element();
    } else if (!ready_.empty()) {
      const uint32_t number = ready_.front();
      ready_.pop_front();
      begin(number);
    } else {
      break;
    }
  }
  RunStep step;
  // Only then, so that a condition which cannot be asked fails the run before its calls are made.
  if (!over_ && !selection_ && ready_.empty()) {
    fill(step);
    if (!over_ && unfinished_ == 0) give_output();
  }
  step.more = !over_ && (selection_ || !ready_.empty() || may_call());
  step.outcome = std::exchange(outcome_, std::nullopt);
  return step;
}

bool Run::keep(const CallKey& key, Bytes size) {
  size_ += size;
  if (size_ <= limits_.values) return true;
  fail(key, {ErrorCode::kResourceExhausted, "the values of this run take more than " +
                                                to_string(limits_.values) +
                                                " in memory; hand large data on as objects"});
  return false;
}

void Run::begin(uint32_t number) {
  const Component& component = workflow_->components[number];
  const CallKey whole{number, std::nullopt};
  progress_[number].begun = true;
  if (component.when && !component.when->per_element()) {
    const auto wanted = is_wanted(whole, *component.when);
    if (!wanted.ok()) return fail(whole, wanted.error());
    if (!*wanted) return finish(number);  // its result stays null
  }
  if (component.for_each) return begin_elements(number);
  progress_[number].left = 1;
  pending_.push_back({whole});
}

void Run::begin_elements(uint32_t number) {
  const Component& component = workflow_->components[number];
  const CallKey whole{number, std::nullopt};
  Progress& progress = progress_[number];
  progress.result = Value::array();
  auto items = refer(*component.for_each, scope_of({}), "for_each", progress.made_items);
  if (!items.ok()) return fail(whole, items.error());
  if (!keep(whole, memory_of(progress.made_items))) return;
  progress.items = *items;
  // Of a component that was not run there is nothing to look at.
  if (progress.items->is_null()) return finish(number);
  if (!progress.items->is_array()) {
    return fail(whole, {ErrorCode::kInvalidArgument, "for_each: a list is expected, this is " +
                                                         std::string(kind_of(*progress.items))});
  }
  const size_t count = progress.items->size();
  if (count > limits_.fan_out) {
    return fail(whole, {ErrorCode::kResourceExhausted,
                        "for_each: the list has " + std::to_string(count) + " elements; at most " +
                            std::to_string(limits_.fan_out) + " are taken"});
  }
  progress.result = Value(count, Value());
  if (!keep(whole, memory_of(progress.result))) return;
  if (component.when && component.when->per_element()) {
    selection_ = Selection{number, 0, component.when};
    Template& value = selection_->when->value;
    // What is made from the same parts for each element is made once.
    if (value.is_made() && !value.per_element()) {
      auto made = resolve_or_null(value, scope_of({}), "when.value");
      if (!made.ok()) return fail(whole, made.error());
      value.content = std::move(made).value();
    }
    return;
  }
  progress.left = static_cast<uint32_t>(count);
  for (uint32_t i = 0; i < count; ++i) pending_.push_back({{number, i}});
  if (count == 0) finish(number);
}

void Run::select_element() {
  Selection& selection = *selection_;
  Progress& progress = progress_[selection.component];
  if (selection.next < progress.items->size()) {
    const CallKey key{selection.component, selection.next++};
    const auto wanted = is_wanted(key, *selection.when);
    if (!wanted.ok()) return fail(key, wanted.error());
    if (!*wanted) return;
    ++progress.left;
    pending_.push_back({key});
    return;
  }
  const uint32_t number = selection.component;
  selection_.reset();
  if (progress.left == 0) finish(number);
}

void Run::finish(uint32_t number) {
  Progress& progress = progress_[number];
  if (progress.items != nullptr) size_ -= memory_of(progress.made_items);
  progress.made_items = Value();
  progress.items = nullptr;
  results_[number] = &progress.result;
  --unfinished_;
  for (const uint32_t each : progress.needed_by) {
    if (--progress_[each].missing == 0) ready_.push_back(each);
  }
}

void Run::fill(RunStep& step) {
  if (!may_call()) return;
  const Pending next = pending_.front();
  pending_.pop_front();
  auto input = input_of(next.key);
  if (!input.ok()) return fail(next.key, input.error());
  running_.emplace_back(next.key, next.attempt);
  step.call = Call{next.key, next.attempt, std::move(input).value()};
}

void Run::give_output() {
  auto output = resolve(workflow_->output, scope_of({}), "output");
  if (output.ok()) return conclude(std::move(output).value());
  const Error error = output.error().with_context("the output of " + name_);
  conclude(Failure{.message = error.message, .type = kBadValue, .code = error.code});
}

Scope Run::scope_of(const Element& element) const {
  return {.names = names_,
          .input = &input_,
          .results = results_,
          .item = element.item,
          .index = &element.index};
}

Result<bool> Run::is_wanted(const CallKey& key, const Condition& when) const {
  Element element;
  if (key.element) {
    element = {&(*progress_[key.component].items)[*key.element], Value(*key.element)};
  }
  return holds(when, scope_of(element));
}

Result<const Value*> Run::items_of(uint32_t component, Value& made) const {
  if (progress_[component].items != nullptr) return progress_[component].items;
  // It has ended, and its list is not kept.
  return refer(*workflow_->components[component].for_each, scope_of({}), "for_each", made);
}

Result<Value> Run::input_of(const CallKey& key) const {
  Element element;
  Value made;
  if (key.element) {
    ASSIGN_OR_RETURN(const Value* items, items_of(key.component, made));
    if (!items->is_array() || *key.element >= items->size()) {
      return Error{ErrorCode::kInternal, "the list of " + label(key) + " is another one now"};
    }
    element = {&(*items)[*key.element], Value(*key.element)};
  }
  return resolve(workflow_->components[key.component].input, scope_of(element), "input");
}

std::string Run::label(const CallKey& key) const {
  const std::string& name = workflow_->components[key.component].name;
  return key.element ? name + "[" + std::to_string(*key.element) + "]" : name;
}

void Run::fail(const CallKey& key, Failure failure) {
  failure.message = "component " + label(key) + " of " + name_ + " failed: " + failure.message;
  // The caller of this workflow had more than one place at work.
  failure.without_effects = false;
  conclude(std::move(failure));
}

void Run::fail(const CallKey& key, const Error& error) {
  fail(key, Failure{.message = error.message, .type = kBadValue, .code = error.code});
}

void Run::conclude(RunOutcome outcome) {
  if (std::exchange(over_, true)) return;
  outcome_ = std::move(outcome);
  pending_.clear();
  making_again_.clear();
  lacking_.clear();
  ready_.clear();
  selection_.reset();
}

}  // namespace lambent::workflow
