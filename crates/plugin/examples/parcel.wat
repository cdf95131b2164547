;; Example plug-in: reads "parcel", a protocol that a description (docs/protocols/custom.md) cannot read, because its lengths
;; are variable and its connections have a memory: an operation is named once and called by its number afterwards.
;;
;;   hello    "PRCL" 01                      the client's first bytes
;;   frame    b7, length of the rest (LEB128), kind, id (LEB128), then
;;   kind 1   request: operation, target, payload          kind 3   event: the same, nobody answers
;;   kind 2   response: status (0 done, 1 no such parcel, else broken), payload
;;   operation   80+n, length, name: is number n from now on; or n
;;   target   length, text
;;
;; Payloads are passed over and never shown. docs/plugins.md describes the interface.
(module
  (import "wirespan" "message" (func $message (param i32 i32 i32)))
  (import "wirespan" "id" (func $id (param i64)))
  (import "wirespan" "body" (func $body (param i64)))
  (import "wirespan" "operation" (func $operation (param i32 i32)))
  (import "wirespan" "target" (func $target (param i32 i32)))
  (import "wirespan" "status" (func $status (param i32)))
  (import "wirespan" "outcome" (func $outcome (param i32)))
  (import "wirespan" "error" (func $error (param i32 i32)))
  (import "wirespan" "attribute_int" (func $attribute_int (param i32 i32 i64)))
  (import "wirespan" "skip" (func $skip (param i64)))

  (memory (export "memory") 1 1)
  (data (i32.const 16) "parcel.size")
  (data (i32.const 32) "no-such-parcel")
  (data (i32.const 48) "broken")

  (func (export "wirespan_abi") (result i32) (i32.const 1))
  ;; Responses name the id of their request.
  (func (export "wirespan_pairing") (result i32) (i32.const 1))
  ;; A call may hold several messages: they have to be seen to their end.
  (func (export "wirespan_need") (result i32) (i32.const -1))
  ;; Kept for each connection: the names of 8 operations, each a length and 15 bytes.
  (func (export "wirespan_state") (result i32) (i32.const 128))
  ;; One page has room for the 16 KiB that are asked for.
  (func (export "wirespan_alloc") (param $size i32) (result i32) (i32.const 1024))

  (func (export "wirespan_detect")
    (param $first i32) (param $first_len i32) (param $second i32) (param $second_len i32) (param $client i32) (param $port i32)
    (result i32)
    ;; Less than the hello and the mark of a frame is too little to say yes.
    (if (i32.lt_u (local.get $first_len) (i32.const 6))
      (then
        (if (i32.eqz (local.get $first_len)) (then (return (i32.const 1))))
        (return (i32.eq (i32.load8_u (local.get $first)) (i32.const 0x50)))))
    (if (i32.ne (i32.load (local.get $first)) (i32.const 0x4c435250)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load16_u offset=4 (local.get $first)) (i32.const 0xb701)) (then (return (i32.const 0))))
    (i32.const 2))

  ;; A number, and in the upper half the address behind it. -1: it is not all there; -2: it is none.
  (func $leb (param $at i32) (param $end i32) (result i64)
    (local $value i32) (local $shift i32) (local $byte i32)
    (loop $more
      (if (i32.ge_u (local.get $shift) (i32.const 28)) (then (return (i64.const -2))))
      (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (i64.const -1))))
      (local.set $byte (i32.load8_u (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $value (i32.or (local.get $value)
        (i32.shl (i32.and (local.get $byte) (i32.const 127)) (local.get $shift))))
      (local.set $shift (i32.add (local.get $shift) (i32.const 7)))
      (br_if $more (i32.and (local.get $byte) (i32.const 128))))
    (i64.or (i64.extend_i32_u (local.get $value)) (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))))

  ;; A byte, or -1 if it is not there.
  (func $byte (param $at i32) (param $end i32) (result i32)
    (if (result i32) (i32.lt_u (local.get $at) (local.get $end))
      (then (i32.load8_u (local.get $at)))
      (else (i32.const -1))))

  (func (export "wirespan_read")
    (param $state i32) (param $side i32) (param $at i32) (param $len i32) (param $flags i32) (result i64)
    (local $end i32) (local $stop i32) (local $next i32) (local $total i32) (local $kind i32) (local $pair i64) (local $number i64)
    (local $code i32) (local $name i32) (local $name_len i32) (local $to i32) (local $to_len i32)
    (local.set $end (i32.add (local.get $at) (local.get $len)))

    ;; The hello.
    (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x50))
      (then
        (if (local.get $side) (then (return (i64.const -1))))
        (if (i32.lt_u (local.get $len) (i32.const 5)) (then (return (i64.const 0))))
        (if (i32.ne (i32.load (local.get $at)) (i32.const 0x4c435250)) (then (return (i64.const -1))))
        (return (i64.const 5))))
    (if (i32.ne (i32.load8_u (local.get $at)) (i32.const 0xb7)) (then (return (i64.const -1))))

    ;; After bytes that were lost, a name may have been given that nobody saw: better none than a wrong one.
    (if (i32.and (local.get $flags) (i32.const 1))
      (then (memory.fill (local.get $state) (i32.const 0) (i32.const 128))))

    (local.set $pair (call $leb (i32.add (local.get $at) (i32.const 1)) (local.get $end)))
    (if (i64.eq (local.get $pair) (i64.const -1)) (then (return (i64.const 0))))
    (if (i64.eq (local.get $pair) (i64.const -2)) (then (return (i64.const -1))))
    (local.set $next (i32.wrap_i64 (i64.shr_u (local.get $pair) (i64.const 32))))
    (local.set $total (i32.add (i32.sub (local.get $next) (local.get $at)) (i32.wrap_i64 (local.get $pair))))
    (if (i32.lt_u (i32.wrap_i64 (local.get $pair)) (i32.const 3)) (then (return (i64.const -1))))

    ;; All that is read lies in the first 300 bytes; wait for them, unless they will not come (cut off, or the end).
    (local.set $stop (i32.add (local.get $at)
      (select (local.get $total) (i32.const 300) (i32.lt_u (local.get $total) (i32.const 300)))))
    (if (i32.lt_u (local.get $end) (local.get $stop))
      (then
        (if (i32.eqz (i32.and (local.get $flags) (i32.const 6))) (then (return (i64.const 0))))
        (local.set $stop (local.get $end))))

    (local.set $kind (call $byte (local.get $next) (local.get $stop)))
    (if (i32.eq (local.get $kind) (i32.const -1)) (then (return (i64.const 0))))
    (if (i32.gt_u (i32.sub (local.get $kind) (i32.const 1)) (i32.const 2)) (then (return (i64.const -1))))
    (local.set $pair (call $leb (i32.add (local.get $next) (i32.const 1)) (local.get $stop)))
    (if (i64.eq (local.get $pair) (i64.const -1)) (then (return (i64.const 0))))
    (if (i64.eq (local.get $pair) (i64.const -2)) (then (return (i64.const -1))))
    (local.set $next (i32.wrap_i64 (i64.shr_u (local.get $pair) (i64.const 32))))
    (local.set $number (i64.and (local.get $pair) (i64.const 0xffffffff)))
    (local.set $code (call $byte (local.get $next) (local.get $stop)))
    (if (i32.eq (local.get $code) (i32.const -1)) (then (return (i64.const 0))))
    (local.set $next (i32.add (local.get $next) (i32.const 1)))

    (if (i32.eq (local.get $kind) (i32.const 2))
      (then
        (call $message (i32.const 1) (i32.const 0) (i32.sub (local.get $next) (local.get $at)))
        (call $status (local.get $code))
        (call $outcome (select (local.get $code) (i32.const 2) (i32.lt_u (local.get $code) (i32.const 2))))
        (if (i32.eq (local.get $code) (i32.const 1)) (then (call $error (i32.const 32) (i32.const 14))))
        (if (i32.gt_u (local.get $code) (i32.const 1)) (then (call $error (i32.const 48) (i32.const 6)))))
      (else
        ;; Where the name of this number is kept.
        (local.set $name (i32.add (local.get $state)
          (i32.shl (i32.and (local.get $code) (i32.const 7)) (i32.const 4))))
        (if (i32.and (local.get $code) (i32.const 0x80))
          (then
            (local.set $name_len (call $byte (local.get $next) (local.get $stop)))
            (local.set $next (i32.add (local.get $next) (i32.const 1)))
            (if (i32.or
                  (i32.gt_u (local.get $name_len) (i32.const 15))
                  (i32.gt_u (i32.add (local.get $next) (local.get $name_len)) (local.get $stop)))
              (then (local.set $name_len (i32.const 0)) (local.set $next (local.get $stop))))
            (i32.store8 (local.get $name) (local.get $name_len))
            (memory.copy (i32.add (local.get $name) (i32.const 1)) (local.get $next) (local.get $name_len))
            (local.set $next (i32.add (local.get $next) (local.get $name_len)))))
        (local.set $to_len (call $byte (local.get $next) (local.get $stop)))
        (local.set $to (i32.add (local.get $next) (i32.const 1)))
        (if (i32.or
              (i32.eq (local.get $to_len) (i32.const -1))
              (i32.gt_u (i32.add (local.get $to) (local.get $to_len)) (local.get $stop)))
          (then (local.set $to_len (i32.const 0)) (local.set $next (local.get $stop)))
          (else (local.set $next (i32.add (local.get $to) (local.get $to_len)))))
        (call $message
          (select (i32.const 0) (i32.const 2) (i32.eq (local.get $kind) (i32.const 1)))
          (i32.const 0) (i32.sub (local.get $next) (local.get $at)))
        (call $operation (i32.add (local.get $name) (i32.const 1)) (i32.load8_u (local.get $name)))
        (if (local.get $to_len) (then (call $target (local.get $to) (local.get $to_len))))
        (call $attribute_int (i32.const 16) (i32.const 11) (i64.extend_i32_u (local.get $total)))))

    (if (i32.ne (local.get $kind) (i32.const 3)) (then (call $id (local.get $number))))
    (call $body (i64.extend_i32_u
      (i32.sub (local.get $total) (i32.sub (local.get $next) (local.get $at)))))
    (if (i32.gt_u (local.get $total) (local.get $len))
      (then
        (call $skip (i64.extend_i32_u (i32.sub (local.get $total) (local.get $len))))
        (return (i64.extend_i32_u (local.get $len)))))
    (i64.extend_i32_u (local.get $total))))
