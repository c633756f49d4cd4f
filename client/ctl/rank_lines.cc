#include "client/ctl/rank_lines.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace mlxcomm::ctl {
namespace {

// Lines of one stream that follow one another are written at once.
constexpr std::size_t kPieceBytes = 64 * 1024;

}  // namespace

void RankLines::PrintLine(unsigned rank, int stream, std::string& line) {
  const bool goes_on = stream == 0 && rank == prompt_rank_ && prompt_bytes_ > 0;
  const std::size_t shown = goes_on ? std::exchange(prompt_bytes_, 0) : 0;
  if (goes_on && std::exchange(prompt_open_, false)) {  // The rest of the line that it begins.
    Add(stream, line.substr(shown) + "\n");
    return line.clear();
  }
  EndPrompt();
  line.erase(0, shown);
  if (prefix_) Add(stream, "[" + std::to_string(rank) + "] ");
  line += '\n';
  Add(stream, line);
  line.clear();
}

void RankLines::EndPrompt() {
  if (std::exchange(prompt_open_, false)) Add(0, "\n");
}

void RankLines::ShowPrompt(unsigned rank, std::chrono::steady_clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  const Stream& out = found->second[0];
  if (out.partial.size() <= prompt_bytes_ || now - out.came_at < kQuiet) return;
  if (!prompt_open_) Add(0, prefix_ ? "[" + std::to_string(rank) + "] " : "");
  Add(0, out.partial.substr(prompt_bytes_));
  prompt_open_ = true;
  prompt_rank_ = rank;
  prompt_bytes_ = out.partial.size();
}

void RankLines::Add(int stream, std::string_view bytes) {
  if (closed_) return;
  const int to = stream == 0 ? STDOUT_FILENO : STDERR_FILENO;
  if (waiting_.empty() || waiting_.back().to != to || waiting_.back().bytes.size() >= kPieceBytes) {
    waiting_.push_back({to, {}});
  }
  waiting_.back().bytes.append(bytes);
  waiting_bytes_ += bytes.size();
}

void RankLines::Print(unsigned rank, int stream, std::string_view bytes) {
  Stream& state = ranks_[rank][static_cast<std::size_t>(stream)];
  // From when on something has not been shown: what comes without an end is shown, too, in pieces.
  const std::size_t shown = stream == 0 && rank == prompt_rank_ ? prompt_bytes_ : 0;
  if (state.partial.size() <= shown) state.came_at = std::chrono::steady_clock::now();
  for (const char c : bytes) {
    const bool after_return = std::exchange(state.returned, c == '\r');
    if (c == '\n' && after_return && state.partial.empty()) continue;  // Of one line's end.
    const bool ends = c == '\n' || (c == '\r' && !state.partial.empty());
    if (!ends && c != '\r') state.partial += c;
    if (ends || state.partial.size() >= kLineBytesMax) PrintLine(rank, stream, state.partial);
  }
}

void RankLines::End(unsigned rank, int stream) {
  Stream& state = ranks_[rank][static_cast<std::size_t>(stream)];
  const bool is_prompt = stream == 0 && rank == prompt_rank_ && prompt_bytes_ > 0;
  if (is_prompt && !prompt_open_ && state.partial.size() == prompt_bytes_) state.partial.clear();
  if (!state.partial.empty()) PrintLine(rank, stream, state.partial);
}

void RankLines::EndAll() {
  for (auto& [rank, streams] : ranks_) {
    for (int stream = 0; stream < 2; ++stream) End(rank, stream);
  }
}

void RankLines::Say(std::string_view line) {
  EndPrompt();
  Add(1, std::string(line) + "\n");
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

// No more at once than a pipe takes without waiting, as soon as it takes anything.
bool RankLines::Write() {
  while (is_waiting()) {
    const Piece& piece = waiting_.front();
    pollfd taker{piece.to, POLLOUT, 0};
    if (::poll(&taker, 1, 0) == 0) return true;
    const std::size_t left = piece.bytes.size() - taken_;
    const ssize_t written =
        ::write(piece.to, piece.bytes.data() + taken_, std::min<std::size_t>(left, PIPE_BUF));
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
      if (std::exchange(said_lost_, true)) continue;
      Say(std::string("mlxcommctl: output is lost: ") + std::strerror(why));
    }
  }
  return true;
}

}  // namespace mlxcomm::ctl
