#include "client/mlx/call_check.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace mlxcomm::graph {
namespace {

constexpr char kBefore[] = "(check ";
constexpr std::size_t kDigits = 6;

thread_local std::shared_ptr<const CallSite> t_site = std::make_shared<CallSite>("", "", "");
thread_local bool t_numbered = true;

struct Table {
  std::mutex mutex;
  std::vector<std::shared_ptr<CheckedCall>> calls{kCallsKept};
  std::size_t built = 0;  // The newest call replaces the oldest.
};
Table& GetTable() {
  static Table* const table = new Table;  // Never destroyed: stream threads may outlive main.
  return *table;
}

std::atomic<bool> g_on{false};
std::atomic<std::uint64_t> g_values_every{0};

void Mix(std::uint64_t& hash, std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3; }

std::uint32_t WordOf(const CheckedCall& call, std::string_view group) {
  std::uint64_t hash = HashOf(group);
  for (const std::uint64_t part : {call.site->hash, call.number, call.transformations})
    Mix(hash, part);
  const auto word = static_cast<std::uint32_t>((hash ^ hash >> 24 ^ hash >> 48) & 0xffffff);
  return word == 0 ? 1 : word;
}

std::string Ordinal(std::uint64_t number) {
  const std::uint64_t last = number % 10;
  const bool is_teen = number / 10 % 10 == 1;
  const char* const end = is_teen || last > 3 || last == 0 ? "th"
                          : last == 1                      ? "st"
                          : last == 2                      ? "nd"
                                                           : "rd";
  return std::to_string(number) + end;
}

const CheckedCall* Find(const Table& table, std::uint32_t word) {
  for (std::size_t i = 0; i < kCallsKept; ++i) {  // Newest first.
    const auto& call = table.calls[(table.built + kCallsKept - 1 - i) % kCallsKept];
    if (call != nullptr && call->word == word) return call.get();
  }
  return nullptr;
}

}  // namespace

void EnableCallChecks(std::uint64_t values_every) {
  g_values_every = values_every;
  g_on = true;
}

bool ChecksCalls() { return g_on.load(std::memory_order_relaxed); }

CallSite::CallSite(std::string of, std::string at, std::string with_name)
    : function(std::move(of)),
      place(std::move(at)),
      name(std::move(with_name)),
      counter(HashOf(function + '\n' + name)) {
  hash = HashOf(function + '\n' + name + '\n' + place);
}

std::string CheckedCall::Text() const {
  std::string text;
  for (std::uint64_t i = 0; i < transformations; ++i) text += "the gradient or vmap of ";
  if (number != 0) text += "the " + Ordinal(number) + " ";
  return text + site->function + (site->name.empty() ? "" : " \"" + site->name + "\"") + ", " +
         site->place;
}

void SetCallSite(std::shared_ptr<const CallSite> site, bool numbered) {
  t_site = std::move(site);
  t_numbered = numbered;
}

std::shared_ptr<CheckedCall> NextCall(CallNumbers& numbers, const std::string& group,
                                      const std::shared_ptr<CheckedCall>& from) {
  auto call = std::make_shared<CheckedCall>();
  call->site = from != nullptr ? from->site : t_site;
  Table& table = GetTable();
  const std::lock_guard lock(table.mutex);
  if (from != nullptr) {
    call->number = from->number;
    call->transformations = from->transformations + 1;
  } else if (t_numbered) {
    if (numbers.built.size() > kCallsKept) numbers.built.clear();  // All ranks do so at one call.
    call->number = ++numbers.built[call->site->counter];
  }
  call->word = WordOf(*call, group);
  table.calls[table.built++ % kCallsKept] = call;
  return call;
}

std::string ExplainChecks(std::string message, std::uint32_t own_rank) {
  Table& table = GetTable();
  const std::lock_guard lock(table.mutex);
  for (std::size_t at = message.find(kBefore); at != std::string::npos;
       at = message.find(kBefore, at + 1)) {
    const std::size_t from = at + sizeof kBefore - 1;
    if (message.size() < from + kDigits + 1 || message[from + kDigits] != ')') continue;
    const std::string digits = message.substr(from, kDigits);
    const auto word = static_cast<std::uint32_t>(std::strtoul(digits.c_str(), nullptr, 16));
    const std::string rank = "rank " + std::to_string(own_rank);
    const CheckedCall* const found = Find(table, word);
    std::string text = found == nullptr ? "a call that " + rank + " has not made" : found->Text();
    if (found != nullptr && !found->evaluated) text += ", which " + rank + " never evaluated";
    message.replace(at + 1, sizeof kBefore - 2 + kDigits, text);
  }
  return message;
}

std::uint64_t HashOf(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (; bytes.size() >= sizeof hash; bytes.remove_prefix(sizeof hash)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    Mix(hash, word);
  }
  for (const char byte : bytes) Mix(hash, static_cast<unsigned char>(byte));
  return hash ^ hash >> 29;
}

bool ComparesValuesNow(CallNumbers& numbers) {
  const std::uint64_t every = g_values_every.load(std::memory_order_relaxed);
  if (every == 0) return false;
  Table& table = GetTable();
  const std::lock_guard lock(table.mutex);
  return ++numbers.compared % every == 0;
}

}  // namespace mlxcomm::graph
