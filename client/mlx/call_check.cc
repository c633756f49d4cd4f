#include "client/mlx/call_check.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace mlxcomm::graph {
namespace {

constexpr char kBefore[] = "(check ";
constexpr std::size_t kDigits = 6;

struct Site {
  std::string function;
  std::string place;
  std::string name;
  bool numbered = true;
};
thread_local Site t_site;

struct Table {
  std::mutex mutex;
  std::unordered_map<std::uint32_t, std::shared_ptr<CheckedCall>> calls;
  std::deque<std::shared_ptr<CheckedCall>> order;
};
Table& GetTable() {
  static Table* const table = new Table;  // Stream threads may outlive the end of main.
  return *table;
}

std::atomic<bool> g_on{false};
std::atomic<std::uint64_t> g_values_every{0};

std::uint32_t WordOf(const std::string& text) {
  const std::uint64_t hash = HashOf(text);
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

std::shared_ptr<CheckedCall> Add(Table& table, const std::string& group, std::string text) {
  auto call = std::make_shared<CheckedCall>();
  call->word = WordOf(group + '\n' + text);
  call->text = std::move(text);
  table.calls[call->word] = call;
  table.order.push_back(call);
  if (table.order.size() > kCallsKept) {
    const auto oldest = table.calls.find(table.order.front()->word);
    if (oldest != table.calls.end() && oldest->second == table.order.front())
      table.calls.erase(oldest);
    table.order.pop_front();
  }
  return call;
}

}  // namespace

void EnableCallChecks(std::uint64_t values_every) {
  g_values_every = values_every;
  g_on = true;
}

bool ChecksCalls() { return g_on.load(std::memory_order_relaxed); }

void SetCallSite(std::string function, std::string place, std::string name, bool numbered) {
  t_site = {std::move(function), std::move(place), std::move(name), numbered};
}

std::shared_ptr<CheckedCall> NextCall(CallNumbers& numbers, const std::string& group,
                                      const std::shared_ptr<CheckedCall>& from) {
  Table& table = GetTable();
  const std::lock_guard lock(table.mutex);
  if (from != nullptr) return Add(table, group, "the gradient or vmap of " + from->text);
  const Site& site = t_site;
  if (numbers.built.size() > kCallsKept) numbers.built.clear();  // On all ranks alike.
  const std::string number =
      site.numbered ? "the " + Ordinal(++numbers.built[site.function + '\n' + site.name]) + " "
                    : "";
  const std::string name = site.name.empty() ? "" : " \"" + site.name + "\"";
  return Add(table, group, number + site.function + name + ", " + site.place);
}

std::string ExplainChecks(std::string message, std::uint32_t own_rank) {
  Table& table = GetTable();
  const std::lock_guard lock(table.mutex);
  for (std::size_t at = message.find(kBefore); at != std::string::npos;
       at = message.find(kBefore, at + 1)) {
    const std::size_t digits = at + sizeof kBefore - 1;
    if (message.size() < digits + kDigits + 1 || message[digits + kDigits] != ')') continue;
    char* end = nullptr;
    const std::string word = message.substr(digits, kDigits);
    const auto found =
        table.calls.find(static_cast<std::uint32_t>(std::strtoul(word.c_str(), &end, 16)));
    std::string text = "a call that rank " + std::to_string(own_rank) + " has not built";
    if (found != table.calls.end()) {
      text = found->second->text;
      if (!found->second->evaluated)
        text += ", which rank " + std::to_string(own_rank) + " never evaluated";
    }
    message.replace(at + 1, sizeof kBefore - 2 + kDigits, text);
  }
  return message;
}

std::uint64_t HashOf(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  for (; bytes.size() >= sizeof hash; bytes.remove_prefix(sizeof hash)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    mix(word);
  }
  for (const char byte : bytes) mix(static_cast<unsigned char>(byte));
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
