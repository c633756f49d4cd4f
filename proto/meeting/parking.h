// Sleeps until a word in shared memory changes.
//
// Linux has futexes; macOS 14.4 and later has os_sync_wait_on_address, which is looked up at run
// time. On other systems CanPark() is false, and ranks ask the daemon to close the page instead of
// sleeping.
//
// Owner: the process that maps the page. Thread: any. Memory: the word's, mapped shared.
#pragma once

#include <atomic>
#include <cstdint>

namespace mlxcomm::meeting {

bool CanPark();

// Sleeps while the word's lower half equals that of `seen`, at most timeout_ns. May return early.
// Requires CanPark.
void Park(std::atomic<std::uint64_t>& word, std::uint64_t seen, std::uint64_t timeout_ns);
void WakeAll(std::atomic<std::uint64_t>& word);

}  // namespace mlxcomm::meeting
