// How much each source of lines may write into the log, so that nobody fills the disk, or has the system drop
// the lines of others.
//
// A source is the first word of a line, which is this program's, and after "user" and "node" the second one,
// too: "user ann: job train is formed". So a line about somebody begins with who it is.
//
// Pure. Owner: the log's sink, under its lock. Memory: kSourcesMax sources; further ones are one source.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace mlxcomm {

class LogLimit {
 public:
  // A user, by name and by number, is two sources, and can have the daemon write as five others: "group",
  // "library:", "refused", "connection" and "cannot". That is less than 1 KiB a second.
  static constexpr std::uint64_t kBytesPerSecond = 128;
  static constexpr std::uint64_t kBytesAtOnce = 16 * 1024;  // After a time without lines.
  static constexpr std::size_t kSourcesMax = 256;

  struct Verdict {
    bool writes = false;
    std::string_view source;
    std::uint64_t left_out = 0;  // Lines of the source since the last one that was written.
  };
  // The source belongs to `line`, or to this.
  Verdict Take(std::string_view line, std::uint64_t now_ns) {
    std::string_view name = SourceOf(line);
    auto found = sources_.find(name);
    if (found == sources_.end()) {
      if (sources_.size() >= kSourcesMax) {
        std::erase_if(sources_, [now_ns](const auto& one) {
          return one.second.paid_until_ns <= now_ns && one.second.left_out == 0;
        });
      }
      if (sources_.size() >= kSourcesMax) name = "others";
      found = sources_.try_emplace(std::string(name)).first;
    }
    Source& source = found->second;
    if (source.paid_until_ns > now_ns + kBytesAtOnce * kByteNs) {
      ++source.left_out;
      return {};
    }
    const std::uint64_t left_out = std::exchange(source.left_out, 0);
    const std::size_t bytes = line.size() + (left_out > 0 ? kReportBytes : 0);
    source.paid_until_ns = std::max(source.paid_until_ns, now_ns) + bytes * kByteNs;
    return {true, found->first, left_out};
  }

 private:
  static constexpr std::uint64_t kByteNs = 1'000'000'000 / kBytesPerSecond;
  static constexpr std::size_t kReportBytes = 128;  // The line that says how many were left out.

  static std::string_view SourceOf(std::string_view line) {
    const std::size_t first = line.find(' ');
    const std::string_view word = line.substr(0, first);
    if (word != "user" && word != "node") return word;
    return line.substr(0, line.find_first_of(" :", first + 1));
  }

  struct Source {
    std::uint64_t paid_until_ns = 0;  // When its lines are within its bytes a second.
    std::uint64_t left_out = 0;
  };
  std::map<std::string, Source, std::less<>> sources_;
};

}  // namespace mlxcomm
