// Sleeping until a word in memory that several processes share changes.
//
// Linux has futexes; macOS 14.4 and later os_sync_wait_on_address, which is looked up when the
// program runs. Elsewhere nobody can sleep here, and who would have to asks the daemon instead.
//
// Owner: the process that maps the page. Thread: any. Memory: the word's, mapped shared.
#pragma once

#include <atomic>
#include <cstdint>

namespace mlxcomm::meeting {

bool CanPark();

// Sleeps while the word's lower half is that of `seen`, at most timeout_ns. May return early.
// Requires CanPark.
void Park(std::atomic<std::uint64_t>& word, std::uint64_t seen, std::uint64_t timeout_ns);
void WakeAll(std::atomic<std::uint64_t>& word);

}  // namespace mlxcomm::meeting
