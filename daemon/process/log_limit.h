// Limits how much each source may write to the log, so that none fills the disk or crowds out
// others' lines.
//
// A source is the first word of a line, which comes from this program, plus the second word after
// "user" and "node": "user ann: job train is formed". So a line about a user or a node must begin
// with its name.
//
// Pure. Owner: the log's sink, under its lock. Memory: kSourcesMax sources; further ones share one.
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
  // One user can cause lines of seven sources: less than 1 KiB a second.
  static constexpr std::uint64_t kBytesPerSecond = 128;
  static constexpr std::uint64_t kBytesAtOnce = 16 * 1024;  // Allowed after a quiet time.
  static constexpr std::size_t kSourcesMax = 256;

  struct Verdict {
    bool writes = false;
    std::string_view source;
    std::uint64_t left_out = 0;  // Omitted lines of the source since its last written one.
  };
  // The verdict's source points into `line` or this object.
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
  static constexpr std::size_t kReportBytes = 128;  // The line that reports omitted ones.

  static std::string_view SourceOf(std::string_view line) {
    const std::size_t first = line.find(' ');
    const std::string_view word = line.substr(0, first);
    if (word != "user" && word != "node") return word;
    return line.substr(0, line.find_first_of(" :", first + 1));
  }

  struct Source {
    std::uint64_t paid_until_ns = 0;  // When its lines are within its rate again.
    std::uint64_t left_out = 0;
  };
  std::map<std::string, Source, std::less<>> sources_;
};

}  // namespace mlxcomm
