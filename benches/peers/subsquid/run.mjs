// Reads a token's transfers by Subsquid's processor, straight from the node, and counts them. Says the count.
// BENCH_RPC, BENCH_TOKEN, BENCH_TIP; BENCH_WATCHED: accounts, separated by commas; none means every transfer.
import {EvmBatchProcessor} from '@subsquid/evm-processor'

const {BENCH_RPC, BENCH_TOKEN, BENCH_TIP, BENCH_WATCHED} = process.env
const transfer = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
const filter = {address: [BENCH_TOKEN], topic0: [transfer]}
if (BENCH_WATCHED) {
    filter.topic2 = BENCH_WATCHED.split(',').map((account) => '0x' + account.slice(2).padStart(64, '0'))
}
const to = Number(BENCH_TIP)
const processor = new EvmBatchProcessor()
    .setRpcEndpoint({url: BENCH_RPC, rateLimit: 100000, maxBatchCallSize: 100})
    .setFinalityConfirmation(0)
    .setFields({log: {transactionHash: true, topics: true, data: true}})
    .setBlockRange({from: 1, to})
    .addLog(filter)

// Keeps what a table would hold; there is no database behind it.
const rows = []
const database = {
    supportsHotBlocks: false,
    connect: async () => ({height: -1, hash: '0x'}),
    transact: async (_, work) => work({}),
}
processor.run(database, async ({blocks}) => {
    for (const {header, logs} of blocks) {
        for (const log of logs) {
            rows.push([log.transactionHash, log.logIndex, header.height, log.topics[2], BigInt(log.data)])
        }
        if (header.height >= to) {
            console.log(rows.length)
            process.exit(0)
        }
    }
})
