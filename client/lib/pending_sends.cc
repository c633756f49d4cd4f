#include "client/lib/pending_sends.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "client/lib/interrupt.h"

namespace mlxcomm::client {
namespace {

constexpr std::uint64_t kUsualBytes = std::uint64_t{64} << 20;

struct Send {
  std::uint64_t ticket = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<const void> keeps;
};

struct Pair {
  std::deque<Send> sends;  // The oldest comes first.
  std::uint64_t bytes = 0;
};

struct All {
  std::mutex mutex;
  std::map<std::pair<mlxcomm_group*, std::uint32_t>, Pair> pairs;
};
All& GetAll() {
  static All* const all = new All;  // Threads may outlive the end of main.
  return *all;
}
std::atomic<std::uint64_t> g_count{0};

Send TakeFirst(Pair& pair) {
  Send send = std::move(pair.sends.front());
  pair.sends.pop_front();
  pair.bytes -= send.bytes;
  g_count.fetch_sub(1, std::memory_order_relaxed);
  return send;
}

bool HasEnded(mlxcomm_group* group, const Send& send) {
  int ended = 0;
  return mlxcomm_test(group, send.ticket, &ended, nullptr) != MLXCOMM_OK || ended != 0;
}

}  // namespace

std::uint64_t SendBytesMax() {
  static const std::uint64_t most = [] {
    const char* const word = std::getenv("MLXCOMM_SEND_BYTES");
    if (word == nullptr || *word == '\0') return kUsualBytes;
    char* end = nullptr;
    errno = 0;
    const std::uint64_t bytes = std::strtoull(word, &end, 10);
    if (*end == '\0' && *word != '-' && errno == 0) return bytes;
    std::fprintf(stderr,
                 "mlxcomm: MLXCOMM_SEND_BYTES=\"%s\": expected a number of bytes; it is %llu\n",
                 word, static_cast<unsigned long long>(kUsualBytes));
    return kUsualBytes;
  }();
  return most;
}

void ReapSends() {
  if (g_count.load(std::memory_order_relaxed) == 0) return;
  std::deque<Send> ended;  // Freed without the lock: the last one of a group closes it.
  All& all = GetAll();
  const std::lock_guard lock(all.mutex);
  for (auto at = all.pairs.begin(); at != all.pairs.end();) {
    Pair& pair = at->second;
    while (!pair.sends.empty() && HasEnded(at->first.first, pair.sends.front()))
      ended.push_back(TakeFirst(pair));
    at = pair.sends.empty() ? all.pairs.erase(at) : std::next(at);
  }
}

bool AwaitASend() {
  ReapSends();
  All& all = GetAll();
  std::unique_lock lock(all.mutex);
  if (all.pairs.empty()) return false;
  const auto first = all.pairs.begin();
  const auto [group, rank] = first->first;
  const Send send = TakeFirst(first->second);
  if (first->second.sends.empty()) all.pairs.erase(first);
  lock.unlock();
  mlxcomm_error error{};
  if (mlxcomm_wait(group, send.ticket, &error) != MLXCOMM_OK)
    std::fprintf(stderr, "mlxcomm: a send to rank %u did not arrive: %s\n", rank, error.message);
  return true;
}

void AwaitSends() {
  while (WasInterrupted(nullptr) == 0 && AwaitASend()) {
  }
}

mlxcomm_code GoOn(mlxcomm_group* group, std::uint64_t ticket, std::uint32_t rank,
                  std::uint64_t bytes, std::shared_ptr<const void> keeps, mlxcomm_error* error) {
  mlxcomm_go_on(group, ticket);
  All& all = GetAll();
  const std::pair key(group, rank);
  std::unique_lock lock(all.mutex);
  Pair& its = all.pairs[key];
  its.sends.push_back({ticket, bytes, std::move(keeps)});
  its.bytes += bytes;
  g_count.fetch_add(1, std::memory_order_relaxed);
  while (true) {
    const auto found = all.pairs.find(key);  // Gone if all have ended while the lock was free.
    if (found == all.pairs.end()) return MLXCOMM_OK;
    Pair& pair = found->second;
    const bool fits = pair.bytes <= SendBytesMax() && g_count.load() <= kSendsMax;
    if (fits || pair.sends.empty()) return MLXCOMM_OK;
    mlxcomm_code code = MLXCOMM_OK;
    {
      const Send oldest = TakeFirst(pair);
      lock.unlock();
      code = mlxcomm_wait(group, oldest.ticket, error);
    }
    if (code != MLXCOMM_OK) return code;
    lock.lock();
  }
}

}  // namespace mlxcomm::client
