// Tries the orders in which several parties can access shared memory: one access at a time, depth
// first, each schedule from the beginning. Memory is sequentially consistent; reordering by
// processors is not explored.
//
// Before each access the running party continues, dies (within the bounds), or another party runs
// instead. A state is explored only once: the contents of memory, and each party's steps and what
// it has read, which determine its next steps. Before an access to a word that is only read, or
// used by one party only, no other party runs, because the order makes no difference.
//
// Owner: the test. Thread: one; parties are fibers, whose frames must not own heap memory, because
// a dead party never leaves its frames. Memory: the world's, at a fixed range.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mlxcomm::meeting::explorer {

// The parties and their invariants.
class World {
 public:
  virtual ~World() = default;
  virtual void Reset() = 0;
  virtual void Run(int party) = 0;  // On the party's fiber.
  virtual bool MayDie(int party) const = 0;
  virtual void Died(int party) = 0;
  // No party can continue. Returns true if one can now.
  virtual bool Unblock() = 0;
  virtual void AtEnd() = 0;
  // The relevant state that does not follow from the parties' reads.
  virtual std::uint64_t StateHash() const = 0;
  virtual std::string NameOf(const void* word) const = 0;
};

struct Bounds {
  static constexpr int kAny = 1 << 20;
  int preemptions = kAny;  // Of parties that could have continued.
  int deaths = 0;
  std::uint64_t schedules = ~std::uint64_t{0};
};

struct Report {
  std::uint64_t schedules = 0;  // Completed schedules.
  std::uint64_t pruned = 0;     // Schedules that reached a known state.
  std::uint64_t states = 0;
  bool complete = false;           // All schedules within the bounds were explored.
  std::string violation;           // The first violation.
  std::vector<std::string> steps;  // The violating schedule's steps.
};

constexpr std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9;
  return hash ^ hash >> 32;
}

class Explorer {
 public:
  Explorer(World& world, int parties, std::byte* memory, std::size_t bytes)
      : world_(world),
        parties_(static_cast<std::size_t>(parties)),
        memory_(memory),
        bytes_(bytes),
        accesses_(bytes / 8) {
    ::getcontext(&fresh_);
    for (Party& party : parties_) party.stack = std::make_unique<std::byte[]>(kStackBytes);
  }

  // The explorer of the running schedule, or none.
  static Explorer*& Current() {
    static Explorer* current = nullptr;
    return current;
  }

  Report Explore(const Bounds& bounds) {
    Begin(bounds);
    std::fill(accesses_.begin(), accesses_.end(), Accesses{});
    for (;;) {
      RunOnce();
      if (!Count()) return Explained();
      if (std::exchange(found_shared_, false)) {
        for (Accesses& accesses : accesses_) accesses.is_shared = accesses.AreShared();
        Begin(bounds);
        continue;
      }
      while (!choices_.empty() && choices_.back().index + 1 == choices_.back().count) {
        choices_.pop_back();
      }
      if (choices_.empty()) break;
      if (report_.schedules >= bounds.schedules) return report_;
      ++choices_.back().index;
    }
    report_.complete = true;
    return report_;
  }

  // Runs `bounds.schedules` random schedules, in which a party usually continues.
  Report TryAtRandom(const Bounds& bounds, std::uint64_t seed) {
    Begin(bounds);
    random_.seed(seed);
    for (at_random_ = true; report_.schedules < bounds.schedules;) {
      choices_.clear();
      stays_ = 1 + random_() % 64;
      RunOnce();
      if (!Count()) break;
    }
    at_random_ = false;
    return report_.violation.empty() ? report_ : Explained();
  }

  // --- for the world, on a party's fiber ---------------------------------------------------

  int running() const { return running_; }
  bool IsOut(int party) const { return Of(party).dead || Of(party).finished; }
  bool IsDead(int party) const { return Of(party).dead; }
  // Before this call all parties run in one order.
  void BeginToExplore() { exploring_ = true; }
  bool exploring() const { return exploring_; }
  // Does not return in this schedule.
  void Violated(const std::string& what) {
    if (report_.violation.empty()) report_.violation = what;
    if (running_ != kNone) Leave();
  }
  // Waits until condition() holds. Its reads are not steps. `idle`: running another party instead
  // is not a preemption.
  template <typename Condition>
  void WaitUntil(const Condition& condition, bool idle = false) {
    Party& party = Of(running_);
    party.condition = [](const void* it) { return (*static_cast<const Condition*>(it))(); };
    party.condition_of = &condition;
    party.idle = idle;
    if (idle || !condition()) Schedule();
    party.condition = nullptr;
    party.idle = false;
    party.history = Mix(party.history, 0x3333);  // It has passed this point.
  }
  // Returns one of this many choices.
  std::size_t Choose(std::size_t ways) {
    const std::size_t way = ways < 2 || !exploring_ ? 0 : Decide(ways, 0x7777);
    Read(way);
    return way;
  }
  std::uint64_t history() const { return Of(running_).history; }
  // Forgets the party's reads since this history, except `value`.
  void Forget(std::uint64_t history, std::uint64_t value) {
    Of(running_).history = Mix(history, value);
  }

  // --- for the steps -----------------------------------------------------------------------

  void BeforeStep(const char* what, const void* word, bool writes, std::size_t bytes = 8) {
    if (running_ == kNone) return;
    if (at_random_ || !exploring_ || IsShared(word, writes, bytes)) Schedule();
    // It has passed this point, even if a write changes nothing.
    Of(running_).history = Mix(Of(running_).history, 0x1111);
    if (traces_) Trace(what + (" " + world_.NameOf(word)));
  }
  void Read(std::uint64_t value) {
    if (running_ == kNone) return;
    Party& party = Of(running_);
    party.history = Mix(party.history, value);
    if (traces_ && !report_.steps.empty()) report_.steps.back() += " " + std::to_string(value);
  }
  void Wrote(const void* word, std::uint64_t before, std::uint64_t after) {
    const auto at = static_cast<std::uint64_t>(static_cast<const std::byte*>(word) - memory_);
    memory_hash_ ^= Mix(at, before) ^ Mix(at, after);
    if (traces_ && running_ != kNone) report_.steps.back() += " := " + std::to_string(after);
  }
  bool IsInMemory(const void* at) const { return at >= memory_ && at < memory_ + bytes_; }

  void Park(const void* word) {
    Of(running_).parked_on = word;
    WaitUntil([&party = Of(running_)] { return party.parked_on == nullptr; });
  }
  void Wake(const void* word) {
    for (Party& party : parties_) {
      if (party.parked_on == word) party.parked_on = nullptr;
    }
  }
  const void* ParkedOn(int party) const { return Of(party).dead ? nullptr : Of(party).parked_on; }

 private:
  static constexpr int kNone = -1;
  static constexpr std::size_t kStackBytes = std::size_t{64} * 1024;

  struct Party {
    std::unique_ptr<std::byte[]> stack;
    jmp_buf point{};
    bool started = false;
    bool finished = false;
    bool dead = false;
    bool idle = false;
    bool (*condition)(const void*) = nullptr;
    const void* condition_of = nullptr;
    const void* parked_on = nullptr;
    std::uint64_t history = 0;

    bool CanGoOn() const {
      return !finished && !dead && (condition == nullptr || condition(condition_of));
    }
  };
  // The parties that have accessed a word since the exploration began, one bit for each.
  struct Accesses {
    std::uint8_t by = 0;
    std::uint8_t writes = 0;
    bool is_shared = false;  // As the current schedules assume.

    bool AreShared() const { return writes != 0 && (by & (by - 1)) != 0; }
  };
  struct Choice {
    std::uint32_t index;
    std::uint32_t count;
  };

  Party& Of(int party) { return parties_[static_cast<std::size_t>(party)]; }
  const Party& Of(int party) const { return parties_[static_cast<std::size_t>(party)]; }
  int parties() const { return static_cast<int>(parties_.size()); }

  bool IsShared(const void* word, bool writes, std::size_t bytes) {
    const auto first = static_cast<std::size_t>(static_cast<const std::byte*>(word) - memory_) / 8;
    const auto mine = static_cast<std::uint8_t>(1 << running_);
    bool is_shared = false;
    for (std::size_t at = first; at < first + bytes / 8; ++at) {
      Accesses& accesses = accesses_[at];
      accesses.by |= mine;
      if (writes) accesses.writes |= mine;
      found_shared_ |= accesses.AreShared() != accesses.is_shared;
      is_shared |= accesses.is_shared;
    }
    return is_shared;
  }

  void Begin(const Bounds& bounds) {
    bounds_ = bounds;
    report_ = {};
    choices_.clear();
    visited_.clear();
  }

  void RunOnce() {
    world_.Reset();
    for (Party& party : parties_) {
      party.started = party.finished = party.dead = party.idle = false;
      party.condition = nullptr;
      party.parked_on = nullptr;
      party.history = 0;
    }
    at_choice_ = 0;
    preemptions_ = deaths_ = 0;
    memory_hash_ = 0;
    exploring_ = pruned_ = false;
    Current() = this;
    running_ = 0;
    Resume(0, main_);
    running_ = kNone;
    if (!pruned_ && report_.violation.empty()) world_.AtEnd();
    Current() = nullptr;
  }

  // False if there are no more schedules.
  bool Count() {
    ++(pruned_ ? report_.pruned : report_.schedules);
    report_.states = visited_.size();
    return report_.violation.empty();
  }

  // Repeats the schedule and records its steps.
  Report Explained() {
    const std::string violation = report_.violation;
    const bool at_random = std::exchange(at_random_, false);
    report_.violation.clear();
    traces_ = true;
    RunOnce();
    traces_ = false;
    at_random_ = at_random;
    if (report_.violation != violation) report_.violation = violation + " (NOT REPEATED)";
    return report_;
  }

  static void Enter() {
    Explorer* const self = Current();
    self->world_.Run(self->running_);
    self->Of(self->running_).finished = true;
    self->Schedule();
  }

  // Runs the party's fiber until `from` continues. Uses swapcontext only the first time, because it
  // makes a system call.
  void Resume(int next, jmp_buf& from) {
    Party& party = Of(next);
    running_ = next;
    if (_setjmp(from) != 0) return;
    if (party.started) _longjmp(party.point, 1);
    party.started = true;
    ucontext_t context = fresh_;
    context.uc_stack.ss_sp = party.stack.get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    ::makecontext(&context, &Enter, 0);
    ::setcontext(&context);
  }
  void Leave() {
    if (_setjmp(Of(running_).point) == 0) _longjmp(main_, 1);
  }

  // Chooses the party that runs next, before a step or because the running party cannot continue.
  void Schedule() {
    const int me = running_;
    for (;;) {
      const Party& party = Of(me);
      const bool can = party.CanGoOn();
      const bool others_too = !can || party.idle || preemptions_ < bounds_.preemptions;
      options_.clear();
      if (can) options_.push_back({me, false});
      if (!can || exploring_) {
        for (int other = 0; others_too && other < parties(); ++other) {
          if (other != me && Of(other).CanGoOn()) options_.push_back({other, false});
        }
      }
      if (exploring_ && deaths_ < bounds_.deaths && !party.dead && !party.finished &&
          world_.MayDie(me)) {
        options_.push_back({me, true});
      }
      if (!Of(me).CanGoOn() && (options_.empty() || options_[0].dies)) {
        if (world_.Unblock()) continue;
      }
      if (options_.empty()) return Leave();
      const std::size_t way =
          options_.size() == 1 || !exploring_ ? 0 : Decide(options_.size(), can && !party.idle);
      const Option option = options_[way];
      if (option.dies) {
        ++deaths_;
        Of(me).dead = true;
        if (traces_) Trace("dies");
        world_.Died(me);
        continue;
      }
      if (option.party == me) return;
      if (can && !party.idle) ++preemptions_;
      return Resume(option.party, Of(me).point);
    }
  }

  std::size_t Decide(std::size_t ways, std::uint64_t kind) {
    if (at_choice_ == choices_.size()) {
      if (!at_random_ && IsKnown(kind)) {
        pruned_ = true;
        Leave();
      }
      std::size_t first = 0;
      if (at_random_ && random_() % stays_ == 0) first = random_() % ways;
      choices_.push_back({static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(ways)});
    }
    return choices_[at_choice_++].index;
  }

  bool IsKnown(std::uint64_t kind) {
    std::uint64_t state = Mix(memory_hash_, world_.StateHash());
    for (const Party& party : parties_) {
      state = Mix(state, Mix(party.history, (party.dead ? 1 : 0) | (party.parked_on ? 2 : 0) |
                                                (party.started ? 4 : 0)));
    }
    // The running party matters for the cost of a switch, and for which party may die now.
    if (bounds_.preemptions < Bounds::kAny || deaths_ < bounds_.deaths || kind == 0x7777) {
      state = Mix(state, Mix(kind, static_cast<std::uint64_t>(running_)));
    }
    const auto [at, is_new] = visited_.try_emplace(state, preemptions_);
    if (is_new || preemptions_ < at->second) {
      at->second = preemptions_;
      return false;
    }
    return true;
  }

  void Trace(const std::string& what) {
    report_.steps.push_back("party " + std::to_string(running_) + ": " + what);
  }

  struct Option {
    int party;
    bool dies;
  };
  World& world_;
  std::vector<Party> parties_;
  std::byte* memory_;
  std::size_t bytes_;
  std::vector<Accesses> accesses_;  // By word.
  bool found_shared_ = false;
  Bounds bounds_;
  Report report_;
  std::vector<Choice> choices_;
  std::size_t at_choice_ = 0;
  std::vector<Option> options_;
  std::unordered_map<std::uint64_t, int> visited_;  // State to the fewest preemptions.
  std::mt19937_64 random_;
  std::uint64_t stays_ = 1;
  bool at_random_ = false;
  bool traces_ = false;
  jmp_buf main_{};
  ucontext_t fresh_{};
  int running_ = kNone;
  int preemptions_ = 0;
  int deaths_ = 0;
  std::uint64_t memory_hash_ = 0;
  bool exploring_ = false;
  bool pruned_ = false;
};

// The page's accesses as steps. A copy of more than a word is two steps: it may be seen half-done.
struct ExploredSteps {
  template <typename Word>
  static Word Load(const std::atomic<Word>& word) {
    return Read("load", word);
  }
  template <typename Word>
  static Word LoadAfterCopies(const std::atomic<Word>& word) {
    return Read("load", word);
  }
  template <typename Word>
  static Word LoadInOrder(const std::atomic<Word>& word) {
    return Read("load", word);
  }
  template <typename Word>
  static void Store(std::atomic<Word>& word, Word value) {
    Write("store", word, value);
  }
  template <typename Word>
  static Word Exchange(std::atomic<Word>& word, Word value) {
    const Word before = Write("exchange", word, value);
    if (Explorer* const it = Explorer::Current()) it->Read(before);
    return before;
  }
  template <typename Word>
  static bool CompareExchange(std::atomic<Word>& word, Word& expected, Word value) {
    Explorer* const it = Explorer::Current();
    if (it != nullptr) it->BeforeStep("compare-and-swap", &word, true);
    const Word before = word.load(std::memory_order_relaxed);
    const bool is = before == expected;
    expected = before;
    if (it != nullptr) it->Read(before);
    if (!is) return false;
    if (it != nullptr) it->Wrote(&word, before, value);
    word.store(value, std::memory_order_relaxed);
    return true;
  }
  static void Copy(void* to, const void* from, std::size_t bytes) {
    const std::size_t half = bytes / 16 * 8;
    if (half != 0) CopyAtOnce(to, from, half);
    CopyAtOnce(static_cast<std::byte*>(to) + half, static_cast<const std::byte*>(from) + half,
               bytes - half);
  }
  static void Park(std::atomic<std::uint64_t>& word, std::uint64_t seen, std::uint64_t) {
    const auto now = static_cast<std::uint32_t>(Read("park", word));
    if (now == static_cast<std::uint32_t>(seen)) Explorer::Current()->Park(&word);
  }
  static void Wake(std::atomic<std::uint64_t>& word) {
    Explorer* const it = Explorer::Current();
    if (it == nullptr) return;
    it->BeforeStep("wake", &word, true);
    it->Wake(&word);
  }

 private:
  template <typename Word>
  static Word Read(const char* what, const std::atomic<Word>& word) {
    Explorer* const it = Explorer::Current();
    if (it == nullptr) return word.load(std::memory_order_relaxed);
    it->BeforeStep(what, &word, false);
    const Word value = word.load(std::memory_order_relaxed);
    it->Read(value);
    return value;
  }
  template <typename Word>
  static Word Write(const char* what, std::atomic<Word>& word, Word value) {
    Explorer* const it = Explorer::Current();
    if (it != nullptr) it->BeforeStep(what, &word, true);
    const Word before = word.load(std::memory_order_relaxed);
    if (it != nullptr) it->Wrote(&word, before, value);
    word.store(value, std::memory_order_relaxed);
    return before;
  }
  static void CopyAtOnce(void* to, const void* from, std::size_t bytes) {
    Explorer* const it = Explorer::Current();
    if (it == nullptr) {
      std::memcpy(to, from, bytes);
      return;
    }
    const bool writes = it->IsInMemory(to);
    it->BeforeStep("copy", writes ? to : from, writes, bytes);
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
      std::uint64_t value;
      std::memcpy(&value, static_cast<const std::byte*>(from) + at, 8);
      if (!writes) {
        it->Read(value);
        continue;
      }
      std::uint64_t before;
      std::memcpy(&before, static_cast<std::byte*>(to) + at, 8);
      it->Wrote(static_cast<std::byte*>(to) + at, before, value);
    }
    std::memcpy(to, from, bytes);
  }
};

}  // namespace mlxcomm::meeting::explorer
