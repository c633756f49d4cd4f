#include "client/ctl/launch/rank_lines.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mlxcomm::ctl {
namespace {

// Consecutive lines of one stream are written together.
constexpr std::size_t kChunkBytes = 64 * 1024;

}  // namespace

void RankLines::PrintLine(unsigned rank, int stream, Stream& state) {
  std::string& line = state.partial;
  line.erase(0, std::exchange(state.shown_bytes, 0));
  const bool continues = prompt_ == &state;
  if (continues) {
    prompt_ = nullptr;
  } else {
    EndPrompt();
  }
  if (prefix_ && !continues) Add(stream, "[" + std::to_string(rank) + "] ");
  line += '\n';
  Add(stream, line);
  line.clear();
}

void RankLines::EndPrompt() {
  if (std::exchange(prompt_, nullptr) != nullptr) Add(0, "\n");
}

void RankLines::ShowPrompt(unsigned rank, std::chrono::steady_clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  Stream& out = found->second[0];
  if (out.partial.size() <= out.shown_bytes || now - out.came_at < kQuiet) return;
  if (prompt_ == nullptr && prefix_) Add(0, "[" + std::to_string(rank) + "] ");
  Add(0, out.partial.substr(out.shown_bytes));
  prompt_ = &out;
  out.shown_bytes = out.partial.size();
}

void RankLines::Add(int stream, std::string_view bytes) {
  if (closed_) return;
  const int to = stream == 0 ? STDOUT_FILENO : STDERR_FILENO;
  if (waiting_.empty() || waiting_.back().to != to || waiting_.back().bytes.size() >= kChunkBytes) {
    waiting_.push_back({to, {}});
  }
  waiting_.back().bytes.append(bytes);
  waiting_bytes_ += bytes.size();
}

void RankLines::Print(unsigned rank, int stream, std::string_view bytes) {
  Stream& state = ranks_[rank][static_cast<std::size_t>(stream)];
  // A part of the line has not been shown since then.
  if (state.partial.size() <= state.shown_bytes) state.came_at = std::chrono::steady_clock::now();
  for (const char c : bytes) {
    const bool after_return = std::exchange(state.returned, c == '\r');
    if (c == '\n' && after_return && state.partial.empty()) continue;  // "\r\n" is one line end.
    const bool ends = c == '\n' || (c == '\r' && !state.partial.empty());
    if (!ends && c != '\r') state.partial += c;
    if (ends || state.partial.size() >= kLineBytesMax) PrintLine(rank, stream, state);
  }
}

void RankLines::End(unsigned rank, int stream) {
  Stream& state = ranks_[rank][static_cast<std::size_t>(stream)];
  const bool is_shown = prompt_ != &state && state.partial.size() == state.shown_bytes;
  if (!state.partial.empty() && !is_shown) PrintLine(rank, stream, state);
}

void RankLines::EndAll() {
  for (auto& [rank, streams] : ranks_) {
    for (int stream = 0; stream < 2; ++stream) End(rank, stream);
  }
}

void RankLines::AddTo(std::vector<pollfd>& waited) const {
  if (is_waiting()) waited.push_back({waiting_.front().to, POLLOUT, 0});
}

void RankLines::Took(std::size_t bytes) {
  taken_ += bytes;
  waiting_bytes_ -= bytes;
  if (taken_ < waiting_.front().bytes.size()) return;
  waiting_.pop_front();
  taken_ = 0;
}

// Writes PIPE_BUF at most, which a pipe that accepts anything accepts without waiting.
bool RankLines::Write() {
  while (is_waiting()) {
    const Chunk& chunk = waiting_.front();
    pollfd taker{chunk.to, POLLOUT, 0};
    if (::poll(&taker, 1, 0) == 0) return true;
    const std::size_t left = chunk.bytes.size() - taken_;
    const ssize_t written =
        ::write(chunk.to, chunk.bytes.data() + taken_, std::min<std::size_t>(left, PIPE_BUF));
    if (written >= 0) {
      Took(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      closed_ = true;
      waiting_.clear();
      taken_ = waiting_bytes_ = 0;
      return false;
    } else if (errno == EINTR || errno == EAGAIN) {
      return true;
    } else {
      const int why = errno;
      Took(left);
      if (std::exchange(has_lost_, true)) continue;
      Say(std::string("mlxcommctl: output is lost: ") + std::strerror(why));
    }
  }
  return true;
}

}  // namespace mlxcomm::ctl
