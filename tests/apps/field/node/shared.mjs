// What the Node services share: the routes' names, and where their servers are.
export const port = Number(process.env.PORT);
export const redisPort = Number(process.env.REDIS_PORT);
export const databaseUrl = process.env.DATABASE_URL;
export const leafUrl = process.env.LEAF_URL;
export const backUrl = process.env.BACK_URL;
export const amqpUrl = process.env.AMQP_URL;
export const kafkaUrl = process.env.KAFKA_URL;
export const mysqlUrl = process.env.MYSQL_URL;
export const mongoUrl = process.env.MONGO_URL;
