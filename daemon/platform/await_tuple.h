// What an awaited operation of Asio gives: a tuple whose first member is the error, in place of an
// exception.
//
//   auto [error, bytes] = co_await socket.async_read_some(buffer, platform::kTuple);
//
// Older versions of Asio have it among what is experimental, those from 1.33 on elsewhere only.
//
// Owner: nobody, it is a constant. Thread: any. Memory: none.
#pragma once

#if __has_include(<asio/as_tuple.hpp>)
#include <asio/as_tuple.hpp>
#else
#include <asio/experimental/as_tuple.hpp>
#endif
#include <asio/use_awaitable.hpp>

namespace mlxcomm::platform {

#if __has_include(<asio/as_tuple.hpp>)
inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
#else
inline constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);
#endif

}  // namespace mlxcomm::platform
