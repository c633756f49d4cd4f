#include "client/ctl/rank_lines.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace mlxcomm::ctl {

void RankLines::PrintLine(unsigned rank, int stream, std::string& line) const {
  FILE* const to = stream == 0 ? stdout : stderr;
  if (prefix_) std::fprintf(to, "[%u] ", rank);
  std::fwrite(line.data(), 1, line.size(), to);
  std::fputc('\n', to);
  line.clear();
}

bool RankLines::Print(unsigned rank, int stream, std::string_view bytes) {
  Stream& state = ranks_[rank][static_cast<std::size_t>(stream)];
  for (const char c : bytes) {
    const bool after_return = std::exchange(state.returned, c == '\r');
    if (c == '\n' && after_return && state.partial.empty()) continue;  // Of one line's end.
    const bool ends = c == '\n' || (c == '\r' && !state.partial.empty());
    if (!ends && c != '\r') state.partial += c;
    if (ends || state.partial.size() >= kLineBytesMax) PrintLine(rank, stream, state.partial);
  }
  return Flush(stream);
}

bool RankLines::Flush(int stream) {
  FILE* const to = stream == 0 ? stdout : stderr;
  if (std::fflush(to) == 0) return true;
  if (errno == EPIPE) return false;
  if (!std::exchange(said_lost_, true)) {
    std::fprintf(stderr, "mlxcommctl: output is lost: %s\n", std::strerror(errno));
  }
  std::clearerr(to);
  return true;
}

bool RankLines::End(unsigned rank, int stream) {
  Stream& state = ranks_[rank][static_cast<std::size_t>(stream)];
  if (state.partial.empty()) return true;
  PrintLine(rank, stream, state.partial);
  return Flush(stream);
}

bool RankLines::EndAll() {
  bool read = true;
  for (auto& [rank, streams] : ranks_) {
    for (int stream = 0; stream < 2; ++stream) read = End(rank, stream) && read;
  }
  return read;
}

}  // namespace mlxcomm::ctl
